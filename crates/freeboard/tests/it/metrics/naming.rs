//! Prometheus' naming conventions, held against every family.

use std::collections::HashSet;

use freeboard::meter::{Family, FamilyKind, Unit};

use super::catalogue;

/// Units that are not base units, and parts of names that are no units' place.
const FORBIDDEN: [&str; 16] = [
    "ns",
    "us",
    "ms",
    "nanoseconds",
    "microseconds",
    "milliseconds",
    "minutes",
    "hours",
    "kb",
    "mb",
    "kib",
    "mib",
    "kilobytes",
    "megabytes",
    "percent",
    "hundredths",
];

/// Labels that a scraper sets itself.
const TAKEN: [&str; 4] = ["job", "instance", "le", "__name__"];

/// What is wrong with a family.
fn objections(family: &Family) -> Vec<String> {
    let mut objections = Vec::new();
    let mut object = |is_wrong: bool, text: &str| {
        if is_wrong {
            objections.push(format!("{}: {text}", family.name));
        }
    };
    let name = family.name.as_str();
    let is_total = name.ends_with("_total");
    let stem = name.strip_suffix("_total").unwrap_or(name);
    let words: Vec<&str> = stem.split('_').collect();
    object(words[0] != "freeboard", "begins with something else");
    object(
        !words.iter().all(|word| is_lower(word)),
        "is not snake case",
    );
    object(
        is_total != (family.kind == FamilyKind::Counter),
        "counters, and only they, end in _total",
    );
    object(
        words.iter().any(|word| FORBIDDEN.contains(word)),
        "is not in a base unit",
    );
    let units = |word: &&&str| ["seconds", "bytes", "ratio"].contains(*word);
    object(
        words[..words.len() - 1].iter().any(|word| units(&word)),
        "has its unit in the middle",
    );
    object(
        words.last() == Some(&"info") && family.samples.iter().any(|sample| sample.value != 1.0),
        "an info is always 1",
    );
    object(
        matches!(words.last(), Some(&("sum" | "count" | "bucket"))),
        "ends as a part of another metric does",
    );
    object(family.kind == FamilyKind::Untyped, "has no kind");
    let help = family.help.as_str();
    object(
        !help.starts_with(|c: char| c.is_ascii_uppercase()),
        "help begins small",
    );
    object(!help.ends_with('.'), "help is no sentence");
    object(help.contains('\n') || help.len() > 120, "help is no line");
    object(
        help.contains("hose of them") || help.starts_with("Of these"),
        "help does not stand by itself",
    );
    for label in family.samples.iter().flat_map(|sample| &sample.labels) {
        let is_snake = label.0.split('_').all(is_lower);
        object(!is_snake || TAKEN.contains(&label.0.as_str()), &label.0);
    }
    objections
}

fn is_lower(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[test]
fn every_family_keeps_to_the_conventions() {
    let objections: Vec<_> = catalogue::all().iter().flat_map(objections).collect();
    assert!(objections.is_empty(), "{objections:#?}");
}

#[test]
fn a_name_is_of_one_family() {
    let mut names = HashSet::new();
    for family in catalogue::all() {
        assert!(names.insert(family.name.clone()), "twice: {}", family.name);
    }
}

#[test]
fn what_breaks_the_conventions_is_found() {
    let family = |name: &str, kind, help: &str| Family {
        name: name.to_owned(),
        kind,
        help: help.to_owned(),
        ..Family::default()
    };
    for (name, kind, help) in [
        ("freeboard_reads", FamilyKind::Counter, "Reads."),
        ("freeboard_reads_total", FamilyKind::Gauge, "Reads."),
        ("freeboard_wait_ms", FamilyKind::Gauge, "Waiting."),
        ("freeboard_seconds_waited", FamilyKind::Gauge, "Waiting."),
        ("freeboard_Reads", FamilyKind::Gauge, "Reads."),
        ("reads", FamilyKind::Gauge, "Reads."),
        ("freeboard_reads", FamilyKind::Gauge, "reads"),
        (
            "freeboard_reads",
            FamilyKind::Gauge,
            "Those of them that failed.",
        ),
        ("freeboard_reads", FamilyKind::Untyped, "Reads."),
    ] {
        assert!(!objections(&family(name, kind, help)).is_empty(), "{name}");
    }
    let fine = family("freeboard_reads_total", FamilyKind::Counter, "Reads.");
    assert!(objections(&fine).is_empty());
}

#[test]
fn units_come_from_names() {
    for (name, unit) in [
        ("freeboard_uptime_seconds", Unit::Seconds),
        ("freeboard_worker_state_seconds_total", Unit::Seconds),
        ("freeboard_stream_flush_bytes", Unit::Bytes),
        ("freeboard_redis_sent_bytes_total", Unit::Bytes),
        ("freeboard_group_skew_ratio", Unit::Ratio),
        ("freeboard_actors_alive", Unit::Count),
    ] {
        let families = catalogue::all();
        let family = families.iter().find(|family| family.name == name);
        let family = family.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(family.unit(), unit, "{name}");
    }
}
