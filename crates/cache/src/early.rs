//! Refreshing early, by chance: the nearer the end of a value, and the longer its fetch takes.
//!
//! XFetch of Vattani, Chierichetti, Lowenstein: "Optimal Probabilistic Cache Stampede Prevention" (VLDB
//! 2015). Of many callers some one is likely to refresh shortly before the value is stale, without any of
//! them knowing of the others.

/// Whether a value that is fresh until `fresh_until_ms` is to be refreshed now. `chance` is evenly spread
/// over (0, 1]; `beta` above 1 refreshes earlier, 0 never.
pub(crate) fn is_due(
    now_ms: u64,
    fresh_until_ms: u64,
    cost_ms: u32,
    beta: f64,
    chance: f64,
) -> bool {
    let ahead_ms = f64::from(cost_ms) * beta * -chance.ln();
    ahead_ms > 0.0 && now_ms as f64 + ahead_ms >= fresh_until_ms as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_end_the_likelier() {
        // exp(-distance / cost) is the probability that theory gives.
        let share = |distance_ms: u64, cost_ms, beta| {
            let steps = 1_000;
            let chances = (1..=steps).map(|step| f64::from(step) / f64::from(steps));
            let due = chances.filter(|chance| is_due(0, distance_ms, cost_ms, beta, *chance));
            due.count()
        };
        assert_eq!(share(100, 100, 1.0), 367);
        assert_eq!(share(300, 100, 1.0), 49);
        assert_eq!(share(300, 100, 3.0), 367);
        assert_eq!(share(1, 100, 0.0), 0);
        assert_eq!(share(1, 0, 1.0), 0, "what costs nothing needs no refresh");
        assert_eq!(share(60_000, 100, 1.0), 0);
    }
}
