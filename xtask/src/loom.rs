//! The loom tests of the workspace.
//!
//! A package checks its public protocols in `tests/loom.rs`, and private ones in `src/loom_tests.rs`.

use crate::cargo::Cargo;
use crate::workspace::Package;

/// Files with loom tests, and the arguments that select them.
const LOCATIONS: &[(&str, &[&str])] = &[
    ("tests/loom.rs", &["--test", "loom"]),
    ("src/loom_tests.rs", &["--lib", "loom_tests"]),
];

/// The calls that run all loom tests of `packages`: at most one for each location.
///
/// They use their own target folder, because switching `--cfg loom` on and off rebuilds the workspace.
pub(crate) fn calls(packages: &[Package], preemptions_max: &str) -> Vec<Cargo> {
    let call = |(path, arguments): &(&str, &[&str])| {
        let names: Vec<&str> = packages
            .iter()
            .filter(|package| package.has_file(path))
            .map(|package| package.name.as_str())
            .collect();
        (!names.is_empty()).then(|| {
            Cargo::new(["test", "--release", "--target-dir", "target/loom"])
                .with_arguments(names.iter().flat_map(|name| ["-p", name]))
                .with_arguments(arguments.iter().copied())
                .with_rustflags("--cfg loom")
                .with_variable("LOOM_MAX_PREEMPTIONS", preemptions_max)
        })
    };
    LOCATIONS.iter().filter_map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn both_locations_are_found_and_packages_without_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/tests/loom.rs", "b/src/loom_tests.rs", "c/src/lib.rs"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let packages = ["a", "b", "c"].map(|name| Package {
            name: name.to_owned(),
            manifest: root.path().join(name).join("Cargo.toml"),
            dependencies: Vec::new(),
            features: Vec::new(),
        });
        let lines: Vec<String> = calls(&packages, "3")
            .iter()
            .map(Cargo::command_line)
            .collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("-p a --test loom"), "{lines:?}");
        assert!(lines[1].ends_with("-p b --lib loom_tests"), "{lines:?}");
    }
}
