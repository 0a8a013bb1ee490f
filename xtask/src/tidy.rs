//! `cargo xtask tidy`: the rules of CONTRIBUTING.md that a program can check, as a test.
//!
//! A rule is a function from a [`source::Source`] (or from the manifests, for the floors) to
//! findings; each finding names file, line and rule, so that an editor can jump to it.

mod atomics;
mod finding;
mod floors;
mod forbid_unsafe;
mod layout;
mod lexer;
mod markers;
mod source;
mod tests_rules;
mod unsafe_reasons;

use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::{self, Package};
use finding::Finding;
use source::Source;

/// Folders whose Rust files are held to the rules.
const FOLDERS: &[&str] = &["crates", "apps", "xtask", "peers"];

/// The rules that look at one file at a time.
const FILE_RULES: &[fn(&Source) -> Vec<Finding>] = &[
    layout::file_length,
    layout::module_docs,
    markers::unfinished_work,
    tests_rules::ignored_tests,
    tests_rules::sleeping_tests,
    unsafe_reasons::stated,
    forbid_unsafe::at_the_crate_root,
    atomics::through_the_sync_module,
];

pub(crate) fn run() -> Result<()> {
    let root = workspace::root()?;
    let packages = workspace::packages(&root)?;
    let (findings, files_count) = check(&root, &packages)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!(
            "{} findings against the style rules in {files_count} files",
            findings.len()
        );
    }
    println!(
        "tidy: {files_count} files, {} packages, no findings",
        packages.len()
    );
    Ok(())
}

fn check(root: &Path, packages: &[Package]) -> Result<(Vec<Finding>, usize)> {
    let sources = source::read_all(root, FOLDERS)?;
    let mut findings = floors::check(root, packages);
    for source in &sources {
        findings.extend(FILE_RULES.iter().flat_map(|rule| rule(source)));
    }
    findings.sort();
    Ok((findings, sources.len()))
}
