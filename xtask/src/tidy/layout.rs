//! Rules on a file as a whole: how long it is, and how it opens.

use super::finding::Finding;
use super::source::Source;

/// Most files stay under 400 lines; beyond this one, a file holds a second noun.
const FILE_LINES_MAX: usize = 600;

pub(crate) fn file_length(source: &Source) -> Vec<Finding> {
    let lines_count = source.text.lines().count();
    if lines_count <= FILE_LINES_MAX {
        return Vec::new();
    }
    let text =
        format!("{lines_count} lines, at most {FILE_LINES_MAX}: split the file by its nouns");
    vec![source.finding(FILE_LINES_MAX, "file-length", text)]
}

pub(crate) fn module_docs(source: &Source) -> Vec<Finding> {
    let opens_with_docs = source
        .text
        .lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| line.starts_with("//!"));
    if opens_with_docs || source.file_name() == "build.rs" {
        return Vec::new();
    }
    let text = "open the file with `//!`: what it is and its place on the message's way";
    vec![source.finding(0, "module-docs", text)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_the_limit_passes_and_one_line_more_fails() {
        let at_limit = Source::new("a.rs", "x\n".repeat(FILE_LINES_MAX));
        let beyond = Source::new("a.rs", "x\n".repeat(FILE_LINES_MAX + 1));
        assert!(file_length(&at_limit).is_empty());
        assert_eq!(file_length(&beyond)[0].line, FILE_LINES_MAX + 1);
    }

    #[test]
    fn docs_come_before_anything_else() {
        assert!(module_docs(&Source::new("a.rs", "\n//! What it is.\nuse x;")).is_empty());
        assert_eq!(
            module_docs(&Source::new("a.rs", "use x;\n//! Late.")).len(),
            1
        );
        assert_eq!(module_docs(&Source::new("a.rs", "")).len(), 1);
        assert!(module_docs(&Source::new("build.rs", "fn main() {}")).is_empty());
    }
}
