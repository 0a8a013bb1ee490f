//! All atomics of the lock-free crates come through one module, so that loom can take their place.

use super::finding::Finding;
use super::lexer::word_positions;
use super::source::Source;

/// Crates whose protocols loom checks in full.
const CRATES: &[&str] = &["queue", "sched"];
/// The one file of each that may name the standard library's atomics.
const SYNC_FILE: &str = "sync.rs";

pub(crate) fn through_the_sync_module(source: &Source) -> Vec<Finding> {
    let is_bound = CRATES
        .iter()
        .any(|name| source.path.starts_with(format!("crates/{name}/src")));
    if !is_bound || source.file_name() == SYNC_FILE {
        return Vec::new();
    }
    source
        .lines
        .iter()
        .enumerate()
        .filter(|(_, line)| names_standard_atomics(&line.code))
        .map(|(line_index, _)| {
            let text = "take atomics from the crate's `sync` module, which loom can replace";
            source.finding(line_index, "atomics", text)
        })
        .collect()
}

fn names_standard_atomics(code: &str) -> bool {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    ["std", "core"].iter().any(|library| {
        let in_group = code.contains(&format!("{library}::sync::{{"))
            && !word_positions(&code, "atomic").is_empty();
        code.contains(&format!("{library}::sync::atomic")) || in_group
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, findings_count: usize) {
        let findings = through_the_sync_module(&Source::new(path, text));
        assert_eq!(findings.len(), findings_count, "{path}: {text}");
    }

    #[test]
    fn standard_atomics_are_found_in_every_spelling() {
        check(
            "crates/queue/src/lane.rs",
            "use std::sync::atomic::AtomicUsize;",
            1,
        );
        check(
            "crates/sched/src/park.rs",
            "use core::sync::{atomic::fence};",
            1,
        );
    }

    #[test]
    fn the_sync_module_tests_and_other_crates_are_free() {
        let text = "use std::sync::atomic::AtomicUsize;";
        check("crates/queue/src/sync.rs", text, 0);
        check("crates/queue/tests/model.rs", text, 0);
        check("crates/meter/src/counter.rs", text, 0);
        check("crates/queue/src/lane.rs", "use std::sync::Arc;", 0);
    }
}
