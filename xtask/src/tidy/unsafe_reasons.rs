//! Every unsafe block, function, trait and implementation says why it is sound.

use super::finding::Finding;
use super::lexer::word_positions;
use super::source::Source;

/// How far above a block its reason may stand: a statement's first lines may lie between.
const BLOCK_LINES_ABOVE_MAX: usize = 8;

/// What an `unsafe` keyword introduces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Block,
    Item,
}

pub(crate) fn stated(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line_index in 0..source.lines.len() {
        for position in word_positions(&source.lines[line_index].code, "unsafe") {
            let Some(kind) = kind_at(source, line_index, position + "unsafe".len()) else {
                continue;
            };
            let has_reason = match kind {
                Kind::Block => block_has_reason(source, line_index),
                Kind::Item => item_has_reason(source, line_index),
            };
            if !has_reason {
                let text = "say in a `SAFETY:` comment (or `# Safety` docs) why it is sound and who upholds it";
                findings.push(source.finding(line_index, "unsafe-reason", text));
            }
        }
    }
    findings
}

/// What follows the keyword; none for function pointer types and for attributes.
fn kind_at(source: &Source, line_index: usize, column: usize) -> Option<Kind> {
    let following = source.lines[line_index..]
        .iter()
        .enumerate()
        .map(|(offset, line)| {
            if offset == 0 {
                &line.code[column..]
            } else {
                &line.code
            }
        })
        .collect::<Vec<&str>>();
    let mut rest = following.iter().flat_map(|code| code.split_whitespace());
    let first = rest.next()?;
    if first.starts_with('{') {
        return Some(Kind::Block);
    }
    if first.starts_with('(') {
        return None;
    }
    // `unsafe fn name(` declares; `unsafe fn(` and `unsafe extern "C" fn(` are types.
    let is_pointer_type = std::iter::once(first)
        .chain(rest.take(2))
        .take_while(|word| !word.contains('{'))
        .any(|word| word.starts_with("fn("));
    (!is_pointer_type).then_some(Kind::Item)
}

fn block_has_reason(source: &Source, line_index: usize) -> bool {
    let first = line_index.saturating_sub(BLOCK_LINES_ABOVE_MAX);
    source.lines[first..=line_index]
        .iter()
        .any(|line| is_reason(&line.comment))
}

/// An item's reason stands in the unbroken run of comments and attributes above it, or within its
/// line.
fn item_has_reason(source: &Source, line_index: usize) -> bool {
    let above = source.lines[..line_index].iter().rev().take_while(|line| {
        let code = line.code.trim();
        code.starts_with('#') || (code.is_empty() && !line.comment.is_empty())
    });
    std::iter::once(&source.lines[line_index])
        .chain(above)
        .any(|line| is_reason(&line.comment))
}

fn is_reason(comment: &str) -> bool {
    comment.contains("SAFETY") || comment.contains("# Safety")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, lines: &[usize]) {
        let findings = stated(&Source::new("a.rs", text));
        let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(found, lines, "{text}");
    }

    #[test]
    fn blocks_need_a_reason_close_above() {
        check("fn f() {\n    unsafe { g() }\n}", &[2]);
        check(
            "// SAFETY: g has no rules.\nlet x =\n    unsafe { g() };",
            &[],
        );
        let far_above = format!("// SAFETY: far.\n{}unsafe {{ g() }}", "a();\n".repeat(9));
        check(&far_above, &[11]);
    }

    #[test]
    fn items_need_a_reason_in_their_own_comments() {
        check("unsafe impl Send for A {}", &[1]);
        check(
            "// SAFETY: A holds no pointer.\nunsafe impl Send for A {}",
            &[],
        );
        check(
            "/// Text.\n///\n/// # Safety\n/// Call once.\n#[inline]\npub unsafe fn f() {}",
            &[],
        );
        check("// SAFETY: of another.\nfn g() {}\nunsafe fn f() {}", &[3]);
    }

    #[test]
    fn types_attributes_and_words_are_free() {
        check("type F = unsafe fn(*mut ());", &[]);
        check("type F = unsafe extern \"C\" fn(i32);", &[]);
        check("#[unsafe(no_mangle)]\nfn f() {}", &[]);
        check("#![forbid(unsafe_code)] // unsafe { }", &[]);
    }
}
