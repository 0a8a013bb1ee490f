//! Rules on tests: none is switched off, and none waits by sleeping.

use super::finding::Finding;
use super::lexer::word_positions;
use super::source::Source;

pub(crate) fn ignored_tests(source: &Source) -> Vec<Finding> {
    let text = "an ignored test protects nothing: make it pass or take it out";
    lines_where(source, "ignored-test", text, |code| {
        let attribute: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        attribute.contains("#[ignore]") || attribute.contains("#[ignore=")
    })
}

pub(crate) fn sleeping_tests(source: &Source) -> Vec<Finding> {
    if !source.is_under("tests") {
        return Vec::new();
    }
    let text = "a test that sleeps is slow or flaky: wait for the condition with a deadline";
    lines_where(source, "sleeping-test", text, |code| {
        let imported = code.contains("thread::{") && !word_positions(code, "sleep").is_empty();
        code.contains("thread::sleep") || imported
    })
}

fn lines_where(
    source: &Source,
    rule: &'static str,
    text: &str,
    breaks_rule: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    source
        .lines
        .iter()
        .enumerate()
        .filter(|(_, line)| breaks_rule(&line.code))
        .map(|(line_index, _)| source.finding(line_index, rule, text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_tests_are_found_with_and_without_a_reason() {
        let source = Source::new(
            "a.rs",
            "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]",
        );
        let lines: Vec<usize> = ignored_tests(&source).iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn sleeping_is_found_only_in_the_tests_folder() {
        let text = "use std::thread::{self, sleep};\nfn f() { std::thread::sleep(x); }";
        assert_eq!(
            sleeping_tests(&Source::new("crates/a/tests/b.rs", text)).len(),
            2
        );
        assert!(sleeping_tests(&Source::new("crates/a/src/b.rs", text)).is_empty());
    }
}
