//! Invariant 2 of the design: unsafe code lives in four crates and nowhere else.

use super::finding::Finding;
use super::source::Source;

/// Crates that may hold unsafe code; all others forbid it at their root.
const MAY_BE_UNSAFE: &[&str] = &["queue", "sched", "io", "actor"];

pub(crate) fn at_the_crate_root(source: &Source) -> Vec<Finding> {
    let is_root = source.is_under("src") && is_root_file(source);
    let may_be_unsafe = MAY_BE_UNSAFE
        .iter()
        .any(|name| source.path.starts_with(format!("crates/{name}")));
    let forbids = source
        .lines
        .iter()
        .any(|line| line.code.contains("#![forbid(unsafe_code)]"));
    if !is_root || may_be_unsafe || forbids {
        return Vec::new();
    }
    let text = "add `#![forbid(unsafe_code)]`: this crate is not one of those that may be unsafe";
    vec![source.finding(0, "forbid-unsafe", text)]
}

fn is_root_file(source: &Source) -> bool {
    let is_in_src_itself = source
        .path
        .parent()
        .is_some_and(|parent| parent.ends_with("src"));
    is_in_src_itself && ["lib.rs", "main.rs"].contains(&source.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, findings_count: usize) {
        let findings = at_the_crate_root(&Source::new(path, text));
        assert_eq!(findings.len(), findings_count, "{path}");
    }

    #[test]
    fn roots_outside_the_four_crates_forbid_unsafe_code() {
        check("crates/meter/src/lib.rs", "//! Meters.\n", 1);
        check("apps/lab/src/main.rs", "//! Lab.\n", 1);
        check(
            "crates/meter/src/lib.rs",
            "//! Meters.\n#![forbid(unsafe_code)]\n",
            0,
        );
        check("crates/queue/src/lib.rs", "//! Queues.\n", 0);
        check("crates/meter/src/gauge.rs", "//! Gauges.\n", 0);
    }

    #[test]
    fn the_words_in_a_comment_do_not_count() {
        check(
            "crates/meter/src/lib.rs",
            "//! `#![forbid(unsafe_code)]`\n",
            1,
        );
    }
}
