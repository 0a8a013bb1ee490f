//! A strict parser of the text exposition format 0.0.4; it panics on anything else.
//!
//! Stricter than a scraper: each family has HELP, then TYPE, then all its samples, once; no series
//! appears twice; there are no blank lines, no timestamps and no other comments.

use std::collections::HashSet;

/// One line of the text with what its family says of it.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Sample {
    /// The value of a label, if the sample has it.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.iter();
        labels
            .find(|(label, _)| label == name)
            .map(|(_, value)| value.as_str())
    }
}

/// All samples of the text, in order.
pub(crate) fn check(text: &str) -> Vec<Sample> {
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "last line is not ended"
    );
    let mut samples = Vec::new();
    let mut families = HashSet::new();
    let mut series = HashSet::new();
    // Not `lines()`, which would take a carriage return in a label for part of a line's end.
    let mut lines = text.split_terminator('\n').peekable();
    while let Some(line) = lines.next() {
        let rest = line
            .strip_prefix("# HELP ")
            .expect("a family begins with HELP");
        let (family, help) = rest.split_once(' ').expect("HELP has a text");
        assert!(is_name(family, true), "metric name {family:?}");
        assert!(families.insert(family.to_owned()), "{family} comes twice");
        let help = unescape(help, false);
        let line = lines.next().expect("TYPE after HELP");
        let rest = line.strip_prefix("# TYPE ").expect("TYPE after HELP");
        let (of, kind) = rest.split_once(' ').expect("TYPE has a kind");
        assert_eq!(of, family);
        assert!(
            ["counter", "gauge", "summary", "untyped"].contains(&kind),
            "kind {kind:?}"
        );
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (name, labels, value) = read_sample(line);
            match name.strip_prefix(family) {
                Some("") => assert_eq!(
                    kind == "summary",
                    labels.iter().any(|(l, _)| l == "quantile")
                ),
                Some("_sum" | "_count") => assert_eq!(kind, "summary", "{line}"),
                _ => panic!("{name} in family {family}"),
            }
            let mut key = labels.clone();
            key.sort_unstable();
            assert!(
                series.insert((name.clone(), key)),
                "series comes twice: {line}"
            );
            samples.push(Sample {
                name,
                help: help.clone(),
                labels,
                value,
            });
        }
    }
    samples
}

fn read_sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let name_end = line.find(['{', ' ']).expect("a sample has a value");
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name, true), "metric name {name:?}");
    let mut labels = Vec::new();
    if let Some(after) = rest.strip_prefix('{') {
        rest = after;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            assert!(is_name(label, false), "label name {label:?}");
            assert!(
                labels.iter().all(|(l, _)| l != label),
                "label {label} comes twice"
            );
            let end = closing_quote(after);
            labels.push((label.to_owned(), unescape(&after[..end], true)));
            rest = &after[end + 1..];
            if let Some(after) = rest.strip_prefix(',') {
                rest = after;
            } else {
                rest = rest.strip_prefix('}').expect("labels are closed");
                break;
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("one blank before the value");
    let is_special = ["NaN", "+Inf", "-Inf"].contains(&value);
    let is_plain = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    assert!(is_special || value.chars().all(is_plain), "value {value:?}");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

fn closing_quote(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return index,
            _ => {}
        }
    }
    panic!("label value is not closed: {text:?}");
}

fn unescape(text: &str, quotes: bool) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('\\') => plain.push('\\'),
            Some('n') => plain.push('\n'),
            Some('"') if quotes => plain.push('"'),
            other => panic!("escape {other:?} in {text:?}"),
        }
    }
    plain
}

fn is_name(name: &str, colon_allowed: bool) -> bool {
    let mut bytes = name.bytes();
    let is_first = |b: u8| b.is_ascii_alphabetic() || b == b'_' || (colon_allowed && b == b':');
    bytes.next().is_some_and(is_first) && bytes.all(|b| is_first(b) || b.is_ascii_digit())
}
