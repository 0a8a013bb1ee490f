//! Shortens type names and error texts.

/// The most characters of an error text.
const LINE_CHARACTERS_MAX: usize = 200;

/// A type without the paths before its name and its parameters': `Vec<String>` of
/// `alloc::vec::Vec<alloc::string::String>`.
pub(crate) fn short_type(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut word_from = 0;
    let mut characters = path.chars().peekable();
    while let Some(character) = characters.next() {
        if character == ':' && characters.next_if_eq(&':').is_some() {
            text.truncate(word_from);
            continue;
        }
        text.push(character);
        if !character.is_alphanumeric() && character != '_' {
            word_from = text.len();
        }
    }
    text
}

/// The first line that is not empty, without control characters.
pub(crate) fn line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    line.chars()
        .filter(|character| !character.is_control())
        .take(LINE_CHARACTERS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_lose_their_paths() {
        assert_eq!(short_type("a::b::Server"), "Server");
        assert_eq!(short_type("a::Dam<b::c::Line, u64>"), "Dam<Line, u64>");
        assert_eq!(short_type("<a::B as c::D>::E"), "<B as D>E");
        assert_eq!(short_type("plain"), "plain");
        assert_eq!(short_type(""), "");
    }

    #[test]
    fn a_line_cannot_move_the_cursor() {
        assert_eq!(line("\n  bad \x1b[2Jfilter\nmore"), "bad [2Jfilter");
        assert_eq!(line(&"x".repeat(1_000)).len(), LINE_CHARACTERS_MAX);
    }
}
