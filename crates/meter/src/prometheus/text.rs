//! Families in the text exposition format 0.0.4.

use std::fmt::Write as _;

use super::family::{Family, Sample};

/// Adds a family and its samples; nothing, if it has none.
pub(super) fn push_family(text: &mut String, family: &Family) {
    if family.samples.is_empty() {
        return;
    }
    text.push_str("# HELP ");
    text.push_str(&family.name);
    text.push(' ');
    push_escaped(text, &family.help, false);
    text.push_str("\n# TYPE ");
    text.push_str(&family.name);
    text.push(' ');
    text.push_str(family.kind.as_str());
    text.push('\n');
    for sample in &family.samples {
        push_sample(text, sample);
    }
}

fn push_sample(text: &mut String, sample: &Sample) {
    text.push_str(&sample.name);
    for (index, (label, value)) in sample.labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        text.push_str(label);
        text.push_str("=\"");
        push_escaped(text, value, true);
        text.push('"');
    }
    if !sample.labels.is_empty() {
        text.push('}');
    }
    text.push(' ');
    push_value(text, sample.value);
    text.push('\n');
}

/// A quote is escaped in label values only: in help, `\"` would be read as two characters.
fn push_escaped(text: &mut String, raw: &str, quotes: bool) {
    for character in raw.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            _ => text.push(character),
        }
    }
}

fn push_value(text: &mut String, value: f64) {
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        // Rust writes the shortest digits that read back as the same value, and NaN as "NaN".
        write!(text, "{value}").expect("writing to a String cannot fail");
    }
}
