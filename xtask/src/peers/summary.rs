//! The goals of all suites in one table, which `cargo xtask peers all` writes into PERFORMANCE.md.
//!
//! ```text
//!  each suite, reduced ──► SuiteReport ──► a row for each figure with a goal ──► one table
//!                          (results, or the reason why there are none)
//! ```
//!
//! A suite without goals shows the first figure of each work.

use std::fmt::Write;
use std::time::Duration;

use super::figure::Figure;
use super::goals::{self, Verdict};
use super::machine::Machine;
use super::peer::{Kind, OURS};
use super::results::Results;
use super::suite::Suite;
use super::table::{self, NOTHING};

/// What became of a suite in a run of all of them.
pub(crate) enum SuiteOutcome {
    Measured(Results),
    /// A program that every peer of the suite needs is missing.
    NotInstalled(String),
    Failed(String),
}

/// One suite of the run.
pub(crate) struct SuiteReport {
    pub(crate) suite: &'static Suite,
    pub(crate) outcome: SuiteOutcome,
    /// With the builds of its programs.
    pub(crate) time: Duration,
}

/// The report of a run: machine, times, goals, failed peers.
pub(crate) fn render(reports: &[SuiteReport], description: &str, machine: &Machine) -> String {
    let header = [
        "what",
        "ours",
        "best peer",
        "ratio",
        "target",
        "in this run",
    ];
    let rows = table::markdown(&header, reports.iter().flat_map(SuiteReport::rows));
    let mut text = format!(
        "{machine}\n- {description}\n- {}\n\n{}\n\n{rows}",
        times(reports),
        count(reports)
    );
    let notes: Vec<String> = reports.iter().flat_map(SuiteReport::notes).collect();
    if !notes.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\nNot measured:\n\n{}\n", notes.join("\n"));
    }
    text
}

/// The suites that could not be built, and those in which a run of ours failed. Peers that fail do not count.
pub(crate) fn failures(reports: &[SuiteReport]) -> Vec<String> {
    let of = |report: &SuiteReport| match &report.outcome {
        SuiteOutcome::NotInstalled(_) => Vec::new(),
        SuiteOutcome::Failed(reason) => vec![format!("{}: {reason}", report.suite.name)],
        SuiteOutcome::Measured(results) => report.failures_of(OURS, results),
    };
    reports.iter().flat_map(of).collect()
}

fn times(reports: &[SuiteReport]) -> String {
    let each: Vec<String> = reports
        .iter()
        .map(|report| format!("{} {:.0} s", report.suite.name, report.time.as_secs_f64()))
        .collect();
    let total: Duration = reports.iter().map(|report| report.time).sum();
    let minutes = total.as_secs_f64() / 60.0;
    format!(
        "time with builds: {minutes:.0} minutes; {}",
        each.join(", ")
    )
}

fn count(reports: &[SuiteReport]) -> String {
    let verdicts: Vec<Verdict> = reports.iter().flat_map(SuiteReport::verdicts).collect();
    let of = |wanted: Verdict| verdicts.iter().filter(|it| **it == wanted).count();
    format!(
        "Of {} rows with a target {} met it, {} missed it, and {} are open because a figure is missing. A ratio above 1 \
         means that Freeboard is ahead of the best peer.",
        verdicts.len(),
        of(Verdict::Met),
        of(Verdict::Missed),
        of(Verdict::Open)
    )
}

impl SuiteReport {
    fn rows(&self) -> Vec<Vec<String>> {
        let results = match &self.outcome {
            SuiteOutcome::Measured(results) => results,
            SuiteOutcome::NotInstalled(reason) => {
                return vec![self.lone_row("not installed", reason)];
            }
            SuiteOutcome::Failed(reason) => return vec![self.lone_row("**failed**", reason)],
        };
        let figures = self.suite.summary_figures().into_iter();
        figures.map(|figure| self.row(figure, results)).collect()
    }

    fn row(&self, figure: &Figure, results: &Results) -> Vec<String> {
        let ours = table::median_cell(OURS, figure, results);
        let ours = match results.median(OURS, figure) {
            Some(_) => format!("{ours} {}", figure.unit),
            None => ours,
        };
        // The machine itself does less than the work.
        let is_rival = |kind| !matches!(kind, Kind::Ours | Kind::Machine);
        let mut row = vec![format!("{}: {}", self.suite.name, figure.label), ours];
        row.extend(table::comparison_cells(figure, is_rival, results));
        row.extend(table::goal_cells(figure, self.suite.figures, results));
        row
    }

    /// The row of a suite without results.
    fn lone_row(&self, word: &str, reason: &str) -> Vec<String> {
        let mut row = vec![NOTHING.to_owned(); 6];
        row[0] = self.suite.name.to_owned();
        // A bar would begin another cell.
        row[5] = format!("{word}: {}", reason.replace('|', "/"));
        row
    }

    /// One for each row with a goal: met if all of its goals are.
    fn verdicts(&self) -> Vec<Verdict> {
        let SuiteOutcome::Measured(results) = &self.outcome else {
            return Vec::new();
        };
        let of = |figure: &Figure| {
            let judge = |goal: goals::Goal| goal.judge(figure, self.suite.figures, results);
            let verdicts: Vec<Verdict> = goals::of(figure).into_iter().map(judge).collect();
            let has = |wanted: Verdict| verdicts.contains(&wanted);
            let order = [Verdict::Missed, Verdict::Open, Verdict::Met];
            order.into_iter().find(|verdict| has(*verdict))
        };
        let figures = self.suite.summary_figures().into_iter();
        figures.filter_map(of).collect()
    }

    fn notes(&self) -> Vec<String> {
        let SuiteOutcome::Measured(results) = &self.outcome else {
            return Vec::new();
        };
        let peers = self.suite.peers.iter();
        let lines = peers.flat_map(|peer| self.failures_of(peer, results));
        lines.map(|line| format!("- {line}")).collect()
    }

    /// A line for each reason why works of this peer failed.
    fn failures_of(&self, peer: &str, results: &Results) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for work in self.suite.summary_works() {
            let Some((_, reason)) = results.failures(peer, work) else {
                continue;
            };
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, works)) => works.push(work),
                None => reasons.push((reason, vec![work])),
            }
        }
        let line = |(reason, works): (&str, Vec<&str>)| {
            format!(
                "{}, {peer} in {}: {reason}",
                self.suite.name,
                works.join(", ")
            )
        };
        reasons.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::super::suite::{GOODPUT, HTTP, KVS, MESSAGING};
    use super::*;
    use serde_json::{Value, json};

    fn report(suite: &'static Suite, outcome: SuiteOutcome) -> SuiteReport {
        SuiteReport {
            suite,
            outcome,
            time: Duration::from_secs(45),
        }
    }

    fn measured(suite: &'static Suite, runs: &[(&str, &str, Value)]) -> SuiteReport {
        let mut results = Results::default();
        for (peer, work, fields) in runs {
            results.add(peer, work, Outcome::Measured(fields.clone()));
        }
        report(suite, SuiteOutcome::Measured(results))
    }

    fn text(reports: &[SuiteReport]) -> String {
        render(reports, "1 round", &Machine::describe(&[]))
    }

    #[test]
    fn goals_of_several_suites_are_one_table() {
        let each = |ns: f64| json!({"count": 1_000_000_000_u64, "seconds": ns});
        let reports = [
            measured(
                &MESSAGING,
                &[
                    (OURS, "pingpong", each(50.0)),
                    ("actix", "pingpong", each(100.0)),
                    (OURS, "ask", each(200.0)),
                    ("crossbeam", "ask", each(100.0)),
                ],
            ),
            measured(
                &GOODPUT,
                &[(OURS, "goodput_10", json!({"goodput_over_capacity": 0.95}))],
            ),
            measured(&KVS, &[("redis", "kvs_set_1", json!({"qps": 2_000}))]),
        ];
        let text = text(&reports);
        let rows = [
            "| messaging: ping-pong | 50.0 ns/msg | actix 100 | 2.00 | <= 80 ns/msg | met |",
            "| messaging: ask | 200 ns/ask | crossbeam 100 | 0.50 | <= 150 ns/ask | **missed** |",
            "| messaging: ring of 1,000 | – | – | – | <= 80 ns/hop | open |",
            "| goodput: 10 x, goodput / capacity | 0.950 ratio | – | – | >= 0.9 | met |",
            "| kvs: SET, 1 client | – | redis 2,000 | – | – | – |",
        ];
        for row in rows {
            assert!(text.contains(row), "{row} is not in:\n{text}");
        }
        assert_eq!(text.matches("| what |").count(), 1, "{text}");
        assert!(text.contains("2 met it, 1 missed it"), "{text}");
        assert!(
            text.contains("2 minutes; messaging 45 s, goodput 45 s, kvs 45 s"),
            "{text}"
        );
        assert_eq!(failures(&reports), [""; 0]);
    }

    #[test]
    fn a_suite_that_is_not_installed_is_a_row_and_no_failure() {
        let reason = "ab is not installed".to_owned();
        let reports = [report(&HTTP, SuiteOutcome::NotInstalled(reason))];
        let row = "| http | – | – | – | – | not installed: ab is not installed |";
        assert!(text(&reports).contains(row));
        assert!(text(&reports).contains("Of 0 rows"));
        assert_eq!(failures(&reports), [""; 0]);
    }

    #[test]
    fn a_suite_that_fails_is_a_row_and_a_failure() {
        let reason = "it cannot be built: a | b".to_owned();
        let reports = [report(&HTTP, SuiteOutcome::Failed(reason))];
        let row = "| http | – | – | – | – | **failed**: it cannot be built: a / b |";
        assert!(text(&reports).contains(row));
        assert_eq!(failures(&reports), ["http: it cannot be built: a | b"]);
    }

    #[test]
    fn a_run_of_ours_that_fails_is_a_failure_and_one_of_a_peer_is_a_note() {
        let mut results = Results::default();
        let broken = || Outcome::Failed("it broke".to_owned());
        results.add(OURS, "http_short", broken());
        results.add(OURS, "http_kept", broken());
        let missing = Outcome::Unavailable("nginx is not installed".to_owned());
        results.add("nginx", "http_short", missing);
        let reports = [report(&HTTP, SuiteOutcome::Measured(results))];
        let ours = "http, freeboard in http_short, http_kept: it broke";
        assert_eq!(failures(&reports), [ours]);
        let text = text(&reports);
        assert!(text.contains(&format!("- {ours}\n")), "{text}");
        let nginx = "- http, nginx in http_short: nginx is not installed\n";
        assert!(text.contains(nginx), "{text}");
        assert!(
            text.contains("| http: ab, short connections | failed |"),
            "{text}"
        );
    }
}
