//! PERFORMANCE.md: text by people, with sections that the suites write.
//!
//! A section lies between `<!-- peers:NAME -->` and `<!-- /peers:NAME -->`; other text is not changed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

const INTRODUCTION: &str = "\
# Performance

Measured side by side: each peer does the same work in a process of its own, the runs of all peers
interleaved over several rounds. A claim rests on the ratios within one such run, not on figures of
different days. The sections between markers are written by `cargo xtask peers`.
";

/// Replaces the text of a section, and creates section and file if they are missing.
pub(crate) fn replace_section(path: &Path, name: &str, text: &str) -> Result<()> {
    let document = match fs::read_to_string(path) {
        Ok(document) => document,
        Err(error) if error.kind() == ErrorKind::NotFound => INTRODUCTION.to_owned(),
        Err(error) => return Err(error).context("it cannot be read"),
    };
    fs::write(path, with_section(&document, name, text)?).context("it cannot be written")
}

fn with_section(document: &str, name: &str, text: &str) -> Result<String> {
    let opening = format!("<!-- peers:{name} -->");
    let closing = format!("<!-- /peers:{name} -->");
    let section = format!("{opening}\n\n{}\n\n{closing}", text.trim());
    match (document.find(&opening), document.find(&closing)) {
        (Some(start), Some(end)) if start < end => Ok(format!(
            "{}{section}{}",
            &document[..start],
            &document[end + closing.len()..]
        )),
        (None, None) => Ok(format!(
            "{}\n\n## {}\n\n{section}\n",
            document.trim_end(),
            title(name)
        )),
        _ => bail!("the markers {opening} and {closing} do not enclose a section"),
    }
}

fn title(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_created_and_then_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("PERFORMANCE.md");
        replace_section(&path, "messaging", "first").unwrap();
        replace_section(&path, "flood", "second").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(INTRODUCTION.trim_end()));
        assert!(text.contains("## Messaging\n\n<!-- peers:messaging -->\n\nfirst\n"));
        assert!(text.contains("## Flood"));
    }

    #[test]
    fn only_the_section_changes() {
        let document = "before\n<!-- peers:flood -->old<!-- /peers:flood -->\nafter\n";
        let changed = with_section(document, "flood", "new").unwrap();
        assert_eq!(
            changed,
            "before\n<!-- peers:flood -->\n\nnew\n\n<!-- /peers:flood -->\nafter\n"
        );
    }

    #[test]
    fn a_lone_marker_is_an_error_and_no_guess() {
        assert!(with_section("<!-- peers:flood -->", "flood", "new").is_err());
    }
}
