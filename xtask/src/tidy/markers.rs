//! Work that was left unfinished shows in macros that panic and in marker words; neither stays.

use super::finding::Finding;
use super::lexer::word_positions;
use super::source::Source;

/// Macros that stand for code which is not there.
const MACROS: &[&str] = &["todo", "unimplemented"];
/// Words by which a comment admits that something is missing.
const WORDS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

pub(crate) fn unfinished_work(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line_index, line) in source.lines.iter().enumerate() {
        for name in MACROS {
            let called = word_positions(&line.code, name)
                .iter()
                .any(|position| line.code[position + name.len()..].starts_with('!'));
            if called {
                let text = format!("`{name}!`: finish it or return an error");
                findings.push(source.finding(line_index, "unfinished-work", text));
            }
        }
        for word in WORDS {
            if !word_positions(&line.comment, word).is_empty() {
                let text = format!("`{word}`: do it now, or open an issue and say nothing here");
                findings.push(source.finding(line_index, "unfinished-work", text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, lines: &[usize]) {
        let findings = unfinished_work(&Source::new("a.rs", text));
        let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn macros_and_marker_words_are_found() {
        check("fn f() {\n    todo!()\n}", &[2]);
        check("unimplemented!(\"x\")", &[1]);
        check("// TODO: later\n/* FIXME */", &[1, 2]);
    }

    #[test]
    fn names_texts_and_longer_words_are_free() {
        check("let todo = \"TODO\"; todo_list!(); // a TODOS list", &[]);
    }
}
