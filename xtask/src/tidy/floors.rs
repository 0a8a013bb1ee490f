//! Invariant 1 of the design: dependencies run down the floors.
//!
//! The table is the house, as ARCHITECTURE.md draws it. A package that is not in it has no place yet, and that is a
//! finding too: the house is decided, not grown by accident.

use std::fs;
use std::path::Path;

use crate::workspace::{DependencyKind, Package};

use super::finding::Finding;

const RULE: &str = "floors";

/// What a package of the workspace may stand on.
#[derive(Clone, Copy)]
enum Below {
    /// These packages of ours and no others.
    Only(&'static [&'static str]),
    /// Any library of ours.
    AnyCrate,
}

const FLOORS: &[(&str, Below)] = &[
    ("freeboard-meter", Below::Only(&[])),
    ("freeboard-servers", Below::Only(&[])),
    ("freeboard-queue", Below::Only(&[])),
    ("freeboard-flow", Below::Only(&[])),
    (
        "freeboard-sched",
        Below::Only(&["freeboard-queue", "freeboard-meter"]),
    ),
    (
        "freeboard-io",
        Below::Only(&["freeboard-sched", "freeboard-meter"]),
    ),
    (
        "freeboard-actor",
        Below::Only(&[
            "freeboard-sched",
            "freeboard-queue",
            "freeboard-flow",
            "freeboard-meter",
        ]),
    ),
    (
        "freeboard-net",
        Below::Only(&[
            "freeboard-actor",
            "freeboard-io",
            "freeboard-flow",
            "freeboard-meter",
        ]),
    ),
    (
        "freeboard-board",
        Below::Only(&["freeboard-actor", "freeboard-flow", "freeboard-meter"]),
    ),
    (
        "freeboard-stream",
        Below::Only(&["freeboard-meter", "freeboard-flow"]),
    ),
    (
        "freeboard-stream-actor",
        Below::Only(&["freeboard-actor", "freeboard-stream", "freeboard-flow"]),
    ),
    (
        "freeboard-redis",
        Below::Only(&[
            "freeboard-net",
            "freeboard-actor",
            "freeboard-io",
            "freeboard-flow",
            "freeboard-meter",
        ]),
    ),
    (
        "freeboard-cache",
        Below::Only(&[
            "freeboard-redis",
            "freeboard-actor",
            "freeboard-flow",
            "freeboard-meter",
        ]),
    ),
    (
        "freeboard-redis-embedded",
        Below::Only(&[
            "freeboard-cache",
            "freeboard-redis",
            "freeboard-net",
            "freeboard-actor",
            "freeboard-io",
            "freeboard-flow",
            "freeboard-meter",
        ]),
    ),
    ("freeboard-telemetry", Below::Only(&["freeboard-meter"])),
    (
        "freeboard-top",
        Below::Only(&["freeboard-board", "freeboard-flow", "freeboard-meter"]),
    ),
    (
        "freeboard-sim",
        Below::Only(&["freeboard-actor", "freeboard-stream"]),
    ),
    ("freeboard", Below::AnyCrate),
    (
        "freeboard-lab",
        // The scene fetch and the command `fetcher` run the other application, which is a library.
        Below::Only(&[
            "freeboard",
            "freeboard-meter",
            "freeboard-servers",
            "freeboard-top",
            "freeboard-fetcher",
        ]),
    ),
    (
        "freeboard-fetcher",
        Below::Only(&["freeboard", "freeboard-meter"]),
    ),
    ("xtask", Below::Only(&[])),
];

pub(crate) fn check(root: &Path, packages: &[Package]) -> Vec<Finding> {
    packages
        .iter()
        .flat_map(|package| check_package(root, package, packages))
        .collect()
}

fn check_package(root: &Path, package: &Package, packages: &[Package]) -> Vec<Finding> {
    let manifest = fs::read_to_string(&package.manifest).unwrap_or_default();
    let finding_at = |line_index: usize, text: String| Finding {
        path: package
            .manifest
            .strip_prefix(root)
            .unwrap_or(&package.manifest)
            .to_path_buf(),
        line: line_index + 1,
        rule: RULE,
        text,
    };
    let Some((_, below)) = FLOORS.iter().find(|(name, _)| *name == package.name) else {
        let text = format!(
            "package {} has no floor: add it to the table of tidy's floors",
            package.name
        );
        return vec![finding_at(0, text)];
    };
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind != DependencyKind::Development)
        .filter_map(|dependency| {
            let target = packages
                .iter()
                .find(|other| other.name == dependency.name)?;
            let reason = objection(root, *below, target)?;
            let line_index = manifest
                .lines()
                .position(|line| line.trim_start().starts_with(&dependency.name))
                .unwrap_or(0);
            let text = format!(
                "{} may not depend on {}: {reason}",
                package.name, target.name
            );
            Some(finding_at(line_index, text))
        })
        .collect()
}

fn objection(root: &Path, below: Below, target: &Package) -> Option<String> {
    if matches!(below, Below::Only(names) if names.contains(&target.name.as_str())) {
        return None;
    }
    let is_library = target.manifest.starts_with(root.join("crates"));
    if !is_library {
        return Some("nothing stands on an application or a tool".to_owned());
    }
    match below {
        Below::AnyCrate => None,
        Below::Only([]) => Some("it is on the ground and stands on no crate of ours".to_owned()),
        Below::Only(names) => Some(format!("it stands on {} only", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, folder: &str, dependencies: &[(&str, DependencyKind)]) -> Package {
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            kind: *kind,
        });
        Package {
            name: name.to_owned(),
            manifest: Path::new("/house").join(folder).join("Cargo.toml"),
            dependencies: dependencies.collect(),
        }
    }

    fn check_texts(packages: &[Package], texts: &[&str]) {
        let findings = check(Path::new("/house"), packages);
        let found: Vec<&str> = findings
            .iter()
            .map(|finding| finding.text.as_str())
            .collect();
        assert_eq!(found, texts);
    }

    #[test]
    fn dependencies_that_run_down_pass() {
        check_texts(
            &[
                package("freeboard-queue", "crates/queue", &[]),
                package(
                    "freeboard-sched",
                    "crates/sched",
                    &[("freeboard-queue", DependencyKind::Normal)],
                ),
                package(
                    "freeboard",
                    "crates/freeboard",
                    &[("freeboard-sched", DependencyKind::Normal)],
                ),
            ],
            &[],
        );
    }

    #[test]
    fn dependencies_that_run_up_fail_unless_only_for_development() {
        let sched = package("freeboard-sched", "crates/sched", &[]);
        let upward = [("freeboard-sched", DependencyKind::Normal)];
        let for_tests = [("freeboard-sched", DependencyKind::Development)];
        check_texts(
            &[
                sched.clone(),
                package("freeboard-queue", "crates/queue", &upward),
            ],
            &[
                "freeboard-queue may not depend on freeboard-sched: it is on the ground and stands on no crate of ours",
            ],
        );
        check_texts(
            &[
                sched,
                package("freeboard-queue", "crates/queue", &for_tests),
            ],
            &[],
        );
    }

    #[test]
    fn nothing_depends_on_an_application_and_strangers_have_no_floor() {
        check_texts(
            &[
                package("freeboard-lab", "apps/lab", &[]),
                package(
                    "freeboard",
                    "crates/freeboard",
                    &[("freeboard-lab", DependencyKind::Build)],
                ),
                package("freeboard-other", "crates/other", &[]),
            ],
            &[
                "freeboard may not depend on freeboard-lab: nothing stands on an application or a tool",
                "package freeboard-other has no floor: add it to the table of tidy's floors",
            ],
        );
    }
}
