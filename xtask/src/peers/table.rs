//! The tables of a run, in Markdown.

use std::fmt::Write;

use super::figure::Figure;
use super::goals::{self, Verdict};
use super::machine::Machine;
use super::peer::{Kind, OURS, Peer};
use super::results::Results;
use super::statistics::Statistics;
use super::suite::Suite;

pub(super) const NOTHING: &str = "–";

/// The report of a run: machine, medians with goals, spread, failures.
pub(crate) fn render(
    suite: &Suite,
    peers: &[&'static Peer],
    results: &Results,
    description: &str,
    machine: &Machine,
) -> String {
    let shown: Vec<&Figure> = suite
        .figures
        .iter()
        .filter(|figure| {
            peers
                .iter()
                .any(|peer| !results.outcomes(peer.name, figure.work).is_empty())
        })
        .collect();
    let mut text = format!("{machine}\n- {description}\n\nMedians:\n\n");
    text.push_str(&medians(&shown, suite, peers, results));
    text.push_str("\nSmallest and largest of the rounds:\n\n");
    text.push_str(&spread(&shown, peers, results));
    text.push_str(&notes(&shown, peers, results));
    text
}

fn medians(shown: &[&Figure], suite: &Suite, peers: &[&Peer], results: &Results) -> String {
    let names = peers.iter().map(|peer| match peer.name {
        OURS => "ours",
        name => name,
    });
    let mut header = vec!["work", "unit"];
    header.extend(names);
    header.extend([suite.rivals.title, "best / ours", "goal", "in this run"]);
    let rows = shown.iter().map(|figure| {
        let mut row = vec![figure.label.to_owned(), figure.unit.to_owned()];
        row.extend(
            peers
                .iter()
                .map(|peer| median_cell(peer.name, figure, results)),
        );
        let is_rival = |kind| suite.rivals.kinds.contains(&kind);
        row.extend(comparison_cells(figure, is_rival, results));
        row.extend(goal_cells(figure, suite.figures, results));
        row
    });
    markdown(&header, rows)
}

pub(super) fn median_cell(peer: &str, figure: &Figure, results: &Results) -> String {
    let failures = results.failures(peer, figure.work);
    match (results.statistics(peer, figure), failures) {
        (Some(statistics), None) => number(statistics.median),
        (Some(statistics), Some((count, _))) => {
            format!("{} ({count} failed)", number(statistics.median))
        }
        (None, Some(_)) => "failed".to_owned(),
        (None, None) => NOTHING.to_owned(),
    }
}

/// The best of the rivals, and how many times better ours is.
pub(super) fn comparison_cells(
    figure: &Figure,
    is_rival: impl Fn(Kind) -> bool,
    results: &Results,
) -> [String; 2] {
    let Some((name, best)) = results.best(figure, is_rival) else {
        return [NOTHING.to_owned(), NOTHING.to_owned()];
    };
    let ratio = results
        .median(OURS, figure)
        .and_then(|ours| figure.times_better(ours, best))
        .map_or_else(|| NOTHING.to_owned(), |ratio| format!("{ratio:.2}"));
    [format!("{name} {}", number(best)), ratio]
}

/// The goals, and whether they were reached.
pub(super) fn goal_cells(figure: &Figure, figures: &[Figure], results: &Results) -> [String; 2] {
    let goals = goals::of(figure);
    if goals.is_empty() {
        return [NOTHING.to_owned(), NOTHING.to_owned()];
    }
    let texts: Vec<String> = goals.iter().map(|goal| goal.text(figure.unit)).collect();
    let verdicts: Vec<Verdict> = goals
        .iter()
        .map(|goal| goal.judge(figure, figures, results))
        .collect();
    let verdict_text = match verdicts.iter().all(|verdict| *verdict == verdicts[0]) {
        true => verdicts[0].to_string(),
        false => verdicts
            .iter()
            .map(Verdict::to_string)
            .collect::<Vec<_>>()
            .join("; "),
    };
    [texts.join("; "), verdict_text]
}

fn spread(shown: &[&Figure], peers: &[&Peer], results: &Results) -> String {
    let mut header = vec!["work", "unit"];
    header.extend(peers.iter().map(|peer| peer.name));
    let cell = |statistics: Statistics| match statistics.count {
        1 => number(statistics.median),
        _ => format!("{} .. {}", number(statistics.min), number(statistics.max)),
    };
    let rows = shown.iter().map(|figure| {
        let cells = peers.iter().map(|peer| {
            results
                .statistics(peer.name, figure)
                .map_or_else(|| NOTHING.to_owned(), cell)
        });
        [figure.label.to_owned(), figure.unit.to_owned()]
            .into_iter()
            .chain(cells)
            .collect()
    });
    markdown(&header, rows)
}

/// The runs that failed or do not apply, with reasons.
fn notes(shown: &[&Figure], peers: &[&Peer], results: &Results) -> String {
    // Peers that share a reason share a line.
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    let works: Vec<&str> = shown.iter().map(|figure| figure.work).collect();
    for (index, work) in works.iter().enumerate() {
        if works[..index].contains(work) {
            continue;
        }
        for peer in peers {
            let Some(text) = note(peer.name, work, results) else {
                continue;
            };
            match notes.iter_mut().find(|(other, _)| *other == text) {
                Some((_, names)) => names.push(peer.name),
                None => notes.push((text, vec![peer.name])),
            }
        }
    }
    if notes.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = notes
        .iter()
        .map(|(text, names)| format!("- {text} ({})", names.join(", ")))
        .collect();
    format!("\nNot measured:\n\n{}\n", lines.join("\n"))
}

fn note(peer: &str, work: &str, results: &Results) -> Option<String> {
    if let Some((count, reason)) = results.failures(peer, work) {
        let runs_count = results.outcomes(peer, work).len();
        return Some(format!(
            "{work} failed in {count} of {runs_count}: {reason}"
        ));
    }
    let reason = results.not_applicable(peer, work)?;
    Some(format!("{work} does not apply: {reason}"))
}

pub(super) fn markdown(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Three significant digits, and separators from a thousand on.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => grouped(value.round()),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let remaining_count = digits.len() - index;
        if index > 0 && remaining_count % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::super::peer::PEERS;
    use super::super::suite::MESSAGING;
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_keep_three_digits() {
        let texts: Vec<String> = [0.1234, 1.234, 12.34, 123.4, 1_234.6, 1_234_567.0]
            .map(number)
            .to_vec();
        assert_eq!(
            texts,
            ["0.123", "1.23", "12.3", "123", "1,235", "1,234,567"]
        );
    }

    #[test]
    fn a_failed_peer_is_shown_with_its_reason() {
        let figure = &MESSAGING.figures[0];
        let mut results = Results::default();
        results.add(
            "freeboard",
            figure.work,
            Outcome::Failed("exit status: 2: stub".to_owned()),
        );
        results.add(
            "actix",
            figure.work,
            Outcome::Measured(json!({"count": 10, "seconds": 1e-6})),
        );
        let peers: Vec<&'static Peer> = PEERS
            .iter()
            .filter(|peer| MESSAGING.peers.contains(&peer.name))
            .collect();
        let text = render(
            &MESSAGING,
            &peers,
            &results,
            "1 round",
            &Machine::describe(&[]),
        );
        assert!(
            text.contains("| fan-in 2 x 2 M | ns/msg | failed | – | – | 100 | –"),
            "{text}"
        );
        assert!(text.contains("| actix 100 | – |"), "{text}");
        assert!(
            text.contains("- fanin_2x2m failed in 1 of 1: exit status: 2: stub (freeboard)"),
            "{text}"
        );
        assert!(!text.contains("ping-pong"), "{text}");
    }
}
