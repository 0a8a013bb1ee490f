//! `cargo xtask tidy`: rules of CONTRIBUTING.md that neither rustc nor clippy checks.
//!
//! The rules on files read lines as text and skip what follows `//`. Each finding names file, line and rule.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, DependencyKind, Package};

/// Folders whose Rust files are checked.
const FOLDERS: &[&str] = &["crates", "apps", "xtask", "peers"];

/// Crates whose protocols loom checks in full: their atomics come from `sync.rs`.
const LOOM_CRATES: &[&str] = &["crates/queue/src", "crates/sched/src"];

/// Crates that may hold unsafe code; the others forbid it at their root.
const UNSAFE_CRATES: &[&str] = &["crates/queue", "crates/sched", "crates/actor"];

/// Which crates of the workspace each package may depend on. `*` stands for every crate under `crates`.
const FLOORS: &[(&str, &str)] = &[
    ("freeboard-platform", ""),
    ("freeboard-meter", "platform"),
    ("freeboard-queue", ""),
    ("freeboard-flow", ""),
    ("freeboard-macros", ""),
    ("freeboard-test-servers", ""),
    ("freeboard-sched", "queue meter platform"),
    ("freeboard-actor", "sched queue flow meter platform"),
    ("freeboard-net", "actor sched flow meter platform"),
    ("freeboard-board", "actor flow meter"),
    ("freeboard-stream", "actor flow meter platform"),
    ("freeboard-redis", "net actor flow meter platform"),
    ("freeboard-cache", "redis net actor flow meter platform"),
    ("freeboard-remote", "actor sched flow meter platform"),
    (
        "freeboard-redis-embedded",
        "cache redis net actor flow meter",
    ),
    (
        "freeboard-sim",
        "net stream actor sched flow meter platform",
    ),
    ("freeboard", "*"),
    // The commands `fetcher` and `logd` run the other applications, which are libraries.
    (
        "freeboard-lab",
        "freeboard fetcher logd board test-servers worlds",
    ),
    ("freeboard-fetcher", "freeboard"),
    ("freeboard-logd", "freeboard board"),
    ("freeboard-kvs", "freeboard"),
    ("freeboard-worlds", "freeboard fetcher kvs logd platform"),
    ("xtask", ""),
];

pub(crate) fn run() -> Result<()> {
    let root = workspace::root()?;
    let packages = workspace::packages(&root)?;
    let mut findings = floors(&root, &packages);
    let mut paths = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    for path in &paths {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        findings.extend(check_file(path.strip_prefix(&root).unwrap_or(path), &text));
    }
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings in {} files", findings.len(), paths.len());
    }
    println!(
        "tidy: {} files, {} packages, no findings",
        paths.len(),
        packages.len()
    );
    Ok(())
}

/// Adds the Rust files below a folder, without build output and hidden folders.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = || format!("cannot list {}", folder.display());
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, paths)?;
            }
        } else if name.ends_with(".rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// The findings in a file; `path` is relative to the workspace's root.
fn check_file(path: &Path, text: &str) -> Vec<String> {
    let is_test = path.components().any(|part| part.as_os_str() == "tests");
    // In a simulation, a sleep takes no time.
    let is_simulated = text.contains("platform::");
    let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let starts_with = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let uses_loom = starts_with(LOOM_CRATES) && !path.ends_with("sync.rs");
    let mut findings = Vec::new();
    let mut report = |line_index: usize, text: &str| {
        findings.push(format!("{}:{}: {text}", path.display(), line_index + 1));
    };
    let mut forbids_unsafe = false;
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let code: String = code.split_whitespace().collect();
        forbids_unsafe |= code.contains("#![forbid(unsafe_code)]");
        if is_test && !is_simulated && code.contains("thread::") && code.contains("sleep") {
            report(
                index,
                "sleep: a test waits for a condition, with a deadline",
            );
        }
        if code.starts_with("#[ignore]") || code.starts_with("#[ignore=") {
            report(index, "ignored test: make it pass or delete it");
        }
        if uses_loom
            && ["std::sync::", "core::sync::"]
                .iter()
                .any(|it| code.contains(it))
            && code.contains("atomic")
        {
            report(
                index,
                "atomics: take them from the crate's `sync` module, which loom can replace",
            );
        }
    }
    if is_root && !forbids_unsafe && !starts_with(UNSAFE_CRATES) {
        report(0, "unsafe: add `#![forbid(unsafe_code)]`");
    }
    let opens_with_docs = text.trim_start().starts_with("//!");
    if !opens_with_docs && !path.ends_with("build.rs") {
        report(0, "docs: open the file with `//!`");
    }
    findings
}

/// Dependencies, without those of tests, that [`FLOORS`] does not allow.
fn floors(root: &Path, packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some((_, below)) = FLOORS.iter().find(|(known, _)| known == name) else {
            findings.push(format!("package {name} is missing in FLOORS of tidy"));
            continue;
        };
        for dependency in &package.dependencies {
            let target = packages.iter().find(|it| it.name == dependency.name);
            let Some(target) = target.filter(|_| dependency.kind != DependencyKind::Development)
            else {
                continue;
            };
            let short = target.name.strip_prefix("freeboard-");
            let is_listed = below
                .split(' ')
                .any(|it| it == short.unwrap_or(&target.name));
            let is_crate = target.manifest.starts_with(root.join("crates"));
            let is_allowed = is_listed || (*below == "*" && is_crate);
            if !is_allowed {
                findings.push(format!(
                    "{}: {name} may not depend on {}; allowed: {below:?}",
                    package.manifest.display(),
                    target.name
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    #[test]
    fn each_rule_finds_its_lines_and_no_others() {
        let docs = "//! Text.\n";
        let forbids = "//! Text.\n#![forbid(unsafe_code)]\n";
        for (path, head, line, rules) in [
            ("crates/a/tests/b.rs", docs, "thread::sleep(time);", "sleep"),
            (
                "crates/a/tests/b.rs",
                docs,
                "use std::thread::{self, sleep};",
                "sleep",
            ),
            ("crates/a/tests/b.rs", docs, "// thread::sleep(time)", ""),
            ("crates/a/src/b.rs", docs, "thread::sleep(time);", ""),
            ("a.rs", docs, "#[ignore]", "ignored test"),
            ("a.rs", docs, "    #[ignore = \"slow\"]", "ignored test"),
            (
                "crates/queue/src/lane.rs",
                docs,
                "use std::sync::atomic::AtomicUsize;",
                "atomics",
            ),
            (
                "crates/sched/src/park.rs",
                docs,
                "use core::sync::{atomic::fence};",
                "atomics",
            ),
            ("crates/queue/src/lane.rs", docs, "use std::sync::Arc;", ""),
            (
                "crates/queue/src/sync.rs",
                docs,
                "use std::sync::atomic::fence;",
                "",
            ),
            (
                "crates/queue/tests/model.rs",
                docs,
                "use std::sync::atomic::fence;",
                "",
            ),
            (
                "crates/meter/src/counter.rs",
                docs,
                "use std::sync::atomic::fence;",
                "",
            ),
            ("crates/meter/src/lib.rs", docs, "", "unsafe"),
            (
                "crates/meter/src/lib.rs",
                "//! `#![forbid(unsafe_code)]`\n",
                "",
                "unsafe",
            ),
            ("crates/meter/src/lib.rs", forbids, "", ""),
            ("apps/lab/src/main.rs", docs, "", "unsafe"),
            ("crates/queue/src/lib.rs", docs, "", ""),
            ("crates/meter/src/gauge.rs", docs, "", ""),
            ("a.rs", "", "fn f() {}", "docs"),
            ("crates/board/build.rs", "", "fn main() {}", ""),
        ] {
            let findings = check_file(Path::new(path), &format!("{head}{line}"));
            let found: Vec<_> = findings
                .iter()
                .filter_map(|it| it.split(": ").nth(1))
                .collect();
            assert_eq!(found.join(" "), rules, "{path}: {head}{line}");
        }
    }

    #[test]
    fn build_output_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        for file in ["src/lib.rs", "target/x.rs", ".git/y.rs", "notes.md"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut paths = Vec::new();
        collect(root.path(), &mut paths).unwrap();
        assert_eq!(paths, [root.path().join("src/lib.rs")]);
        assert!(collect(&root.path().join("absent"), &mut paths).is_err());
    }

    #[test]
    fn dependencies_run_down_the_floors() {
        use DependencyKind::{Build, Development, Normal};
        let package = |folder: &str, name: &str, dependencies: &[(&str, DependencyKind)]| {
            let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
                name: (*name).to_owned(),
                kind: *kind,
            });
            Package {
                name: name.to_owned(),
                manifest: Path::new("/house").join(folder).join("Cargo.toml"),
                dependencies: dependencies.collect(),
                features: Vec::new(),
            }
        };
        let found = |name, target, kind| {
            let others = ["meter", "queue", "sched"].map(|it| {
                let name = format!("freeboard-{it}");
                package(&format!("crates/{it}"), &name, &[])
            });
            let mut packages = others.to_vec();
            packages.push(package("apps/lab", "freeboard-lab", &[]));
            packages.retain(|it| it.name != name);
            packages.push(package("crates/x", name, &[(target, kind)]));
            floors(Path::new("/house"), &packages).len()
        };
        assert_eq!(found("freeboard-sched", "freeboard-queue", Normal), 0);
        assert_eq!(found("freeboard-queue", "freeboard-sched", Normal), 1);
        assert_eq!(found("freeboard-queue", "freeboard-sched", Build), 1);
        assert_eq!(found("freeboard-queue", "freeboard-sched", Development), 0);
        assert_eq!(found("freeboard-queue", "slab", Normal), 0);
        assert_eq!(found("freeboard", "freeboard-sched", Normal), 0);
        assert_eq!(found("freeboard", "freeboard-lab", Build), 1);
        // A package that the table does not name.
        assert_eq!(found("freeboard-other", "slab", Normal), 1);
    }
}
