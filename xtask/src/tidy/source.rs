//! A Rust file as the rules see it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::finding::Finding;
use super::lexer::{self, Line};

/// A file's text, whole and taken apart.
pub(crate) struct Source {
    /// Relative to the workspace's root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) lines: Vec<Line>,
}

impl Source {
    pub(crate) fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            path: path.into(),
            lines: lexer::split(&text),
            text,
        }
    }

    /// Whether a folder of this name lies on the way to the file.
    pub(crate) fn is_under(&self, folder: &str) -> bool {
        self.path
            .parent()
            .is_some_and(|parent| parent.components().any(|part| part.as_os_str() == folder))
    }

    pub(crate) fn file_name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }

    /// A finding at the line with this index, which counts from 0.
    pub(crate) fn finding(
        &self,
        line_index: usize,
        rule: &'static str,
        text: impl Into<String>,
    ) -> Finding {
        Finding {
            path: self.path.clone(),
            line: line_index + 1,
            rule,
            text: text.into(),
        }
    }
}

/// Every Rust file in `folders` of the workspace at `root`, in the order of their paths.
pub(crate) fn read_all(root: &Path, folders: &[&str]) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for folder in folders {
        let folder = root.join(folder);
        if folder.is_dir() {
            collect(&folder, &mut paths)?;
        }
    }
    paths.sort();
    paths.into_iter().map(|path| read(root, &path)).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list {}", folder.display()))?
            .path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        if path.is_dir() {
            // Build output and hidden folders are not ours to judge.
            if name != "target" && !name.starts_with('.') {
                collect(&path, paths)?;
            }
        } else if name.ends_with(".rs") {
            paths.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, path: &Path) -> Result<Source> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Source::new(path.strip_prefix(root).unwrap_or(path), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rust_files_and_skips_build_output() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "crates/a/src/lib.rs",
            "crates/a/target/x.rs",
            "crates/a/notes.md",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "//! text").unwrap();
        }
        let sources = read_all(root.path(), &["crates", "absent"]).unwrap();
        let paths: Vec<_> = sources.iter().map(|source| source.path.as_path()).collect();
        assert_eq!(paths, [Path::new("crates/a/src/lib.rs")]);
        assert!(sources[0].is_under("src") && !sources[0].is_under("lib.rs"));
    }
}
