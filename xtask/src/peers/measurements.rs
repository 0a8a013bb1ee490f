//! docs/measurements: one file for each suite, with a section that the suite writes.
//!
//! The section lies between `<!-- peers:NAME -->` and `<!-- /peers:NAME -->`. People write the rest of the file.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Puts `text` into the section, creating the section or the file where it is missing.
pub(crate) fn replace_section(path: &Path, name: &str, text: &str) -> Result<()> {
    let document = match fs::read_to_string(path) {
        Ok(document) => document,
        Err(error) if error.kind() == ErrorKind::NotFound => format!("# {}\n", title(name)),
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
        (None, None) => Ok(format!("{}\n\n{section}\n", document.trim_end())),
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
        let path = folder.path().join("flood.md");
        replace_section(&path, "flood", "first").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "# Flood\n\n<!-- peers:flood -->\n\nfirst\n\n<!-- /peers:flood -->\n"
        );
        fs::write(&path, format!("{text}\nby hand\n")).unwrap();
        replace_section(&path, "flood", "second").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("<!-- peers:flood -->\n\nsecond\n"));
        assert!(text.ends_with("\nby hand\n"));
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
