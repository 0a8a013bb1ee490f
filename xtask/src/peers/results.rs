//! All outcomes of a run of the suite, by peer and work.

use std::collections::BTreeMap;

use serde_json::Value;

use super::figure::{Better, Figure};
use super::outcome::Outcome;
use super::peer::{Kind, PEERS};
use super::statistics::Statistics;

/// The outcomes of all rounds.
#[derive(Default)]
pub(crate) struct Results {
    outcomes: BTreeMap<(String, String), Vec<Outcome>>,
}

impl Results {
    pub(crate) fn add(&mut self, peer: &str, work: &str, outcome: Outcome) {
        self.outcomes
            .entry((peer.to_owned(), work.to_owned()))
            .or_default()
            .push(outcome);
    }

    pub(crate) fn outcomes(&self, peer: &str, work: &str) -> &[Outcome] {
        self.outcomes
            .get(&(peer.to_owned(), work.to_owned()))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether further rounds of this pair are pointless.
    pub(crate) fn is_settled(&self, peer: &str, work: &str) -> bool {
        self.outcomes(peer, work)
            .iter()
            .any(|outcome| matches!(outcome, Outcome::NotApplicable(_) | Outcome::Unavailable(_)))
    }

    /// The fields of every measured run of this pair.
    pub(crate) fn fields(&self, peer: &str, work: &str) -> Vec<&Value> {
        self.outcomes(peer, work)
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Measured(fields) => Some(fields),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn statistics(&self, peer: &str, figure: &Figure) -> Option<Statistics> {
        let fields = self.fields(peer, figure.work);
        Statistics::of(
            fields
                .iter()
                .filter_map(|fields| figure.read(fields))
                .collect(),
        )
    }

    pub(crate) fn median(&self, peer: &str, figure: &Figure) -> Option<f64> {
        Some(self.statistics(peer, figure)?.median)
    }

    /// The best median among the peers of the wanted kinds, with the peer's name.
    pub(crate) fn best(
        &self,
        figure: &Figure,
        wanted: impl Fn(Kind) -> bool,
    ) -> Option<(&'static str, f64)> {
        let medians = PEERS
            .iter()
            .filter(|peer| wanted(peer.kind))
            .filter_map(|peer| Some((peer.name, self.median(peer.name, figure)?)));
        match figure.better {
            Better::Lower => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
            Better::Higher => medians.max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }

    /// Why runs of this pair failed, with the number of failed runs.
    pub(crate) fn failures(&self, peer: &str, work: &str) -> Option<(usize, &str)> {
        let reasons: Vec<&str> = self
            .outcomes(peer, work)
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Failed(reason) | Outcome::Unavailable(reason) => Some(reason.as_str()),
                _ => None,
            })
            .collect();
        Some((reasons.len(), *reasons.first()?))
    }

    /// Why the work does not apply to the peer.
    pub(crate) fn not_applicable(&self, peer: &str, work: &str) -> Option<&str> {
        self.outcomes(peer, work)
            .iter()
            .find_map(|outcome| match outcome {
                Outcome::NotApplicable(reason) => Some(reason.as_str()),
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::suite::MESSAGING;
    use super::*;
    use serde_json::json;

    fn measured(seconds: f64) -> Outcome {
        Outcome::Measured(json!({"count": 1_000, "seconds": seconds}))
    }

    #[test]
    fn best_is_chosen_among_the_wanted_kinds() {
        let figure = &MESSAGING.figures[0];
        let mut results = Results::default();
        results.add("crossbeam", figure.work, measured(1.0));
        results.add("actix", figure.work, measured(3.0));
        results.add("ractor", figure.work, measured(2.0));
        let best = results
            .best(figure, |kind| kind == Kind::ActorCrate)
            .unwrap();
        assert_eq!(best, ("ractor", 2e6));
    }

    #[test]
    fn failures_are_kept_beside_what_was_measured() {
        let figure = &MESSAGING.figures[0];
        let mut results = Results::default();
        results.add("actix", figure.work, measured(3.0));
        results.add("actix", figure.work, Outcome::Failed("broke".to_owned()));
        assert!(!results.is_settled("actix", figure.work));
        assert_eq!(results.statistics("actix", figure).unwrap().count, 1);
        assert_eq!(results.failures("actix", figure.work), Some((1, "broke")));
    }
}
