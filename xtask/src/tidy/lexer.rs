//! Splits Rust text into code and comments, line by line, with the insides of literals blanked.
//!
//! Rules look for words. Without this split a rule's own sample in a string, or a word in prose,
//! would count as a breach. It knows comments, strings and characters, and nothing else of Rust.

/// One line, taken apart. Columns of `code` are those of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line's code; literals and comments are spaces.
    pub(crate) code: String,
    /// The line's comments, with their slashes.
    pub(crate) comment: String,
}

/// What the next character belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text,
    RawText { hashes_count: usize },
}

/// Takes a whole file apart.
pub(crate) fn split(text: &str) -> Vec<Line> {
    let mut lexer = Lexer {
        characters: text.chars().collect(),
        position: 0,
        state: State::Code,
        lines: vec![Line::default()],
    };
    while lexer.position < lexer.characters.len() {
        lexer.step();
    }
    lexer.lines
}

struct Lexer {
    characters: Vec<char>,
    position: usize,
    state: State,
    lines: Vec<Line>,
}

impl Lexer {
    fn step(&mut self) {
        if self.peek(0) == Some('\n') {
            self.position += 1;
            self.lines.push(Line::default());
            if self.state == State::LineComment {
                self.state = State::Code;
            }
            return;
        }
        match self.state {
            State::Code => self.step_in_code(),
            State::LineComment => self.take_comment(1),
            State::BlockComment { depth } => self.step_in_block_comment(depth),
            State::Text => self.step_in_text(),
            State::RawText { hashes_count } => self.step_in_raw_text(hashes_count),
        }
    }

    fn step_in_code(&mut self) {
        if self.starts_with("//") {
            self.state = State::LineComment;
            self.take_comment(2);
        } else if self.starts_with("/*") {
            self.state = State::BlockComment { depth: 1 };
            self.take_comment(2);
        } else if self.peek(0) == Some('"') {
            self.state = State::Text;
            self.blank(1);
        } else if let Some((opening_count, hashes_count)) = self.raw_text_opening() {
            self.state = State::RawText { hashes_count };
            self.blank(opening_count);
        } else if let Some(literal_count) = self.character_literal() {
            self.blank(literal_count);
        } else {
            let character = self.characters[self.position];
            self.line().code.push(character);
            self.position += 1;
        }
    }

    fn step_in_block_comment(&mut self, depth: usize) {
        if self.starts_with("/*") {
            self.state = State::BlockComment { depth: depth + 1 };
            self.take_comment(2);
        } else if self.starts_with("*/") {
            self.state = match depth {
                1 => State::Code,
                _ => State::BlockComment { depth: depth - 1 },
            };
            self.take_comment(2);
        } else {
            self.take_comment(1);
        }
    }

    fn step_in_text(&mut self) {
        match self.peek(0) {
            // An escaped line end still has to be seen as a line end.
            Some('\\') if self.peek(1).is_some_and(|next| next != '\n') => self.blank(2),
            Some('"') => {
                self.state = State::Code;
                self.blank(1);
            }
            _ => self.blank(1),
        }
    }

    fn step_in_raw_text(&mut self, hashes_count: usize) {
        let closes = self.peek(0) == Some('"')
            && (1..=hashes_count).all(|offset| self.peek(offset) == Some('#'));
        if closes {
            self.state = State::Code;
            self.blank(1 + hashes_count);
        } else {
            self.blank(1);
        }
    }

    /// Length of the opening and number of hashes, if `r"`, `r#"`, `br"` and so on start here.
    fn raw_text_opening(&self) -> Option<(usize, usize)> {
        let starts_a_word = self
            .position
            .checked_sub(1)
            .is_none_or(|before| !is_word(self.characters[before]));
        let prefix_count = usize::from(matches!(self.peek(0), Some('b' | 'c')));
        if !starts_a_word || self.peek(prefix_count) != Some('r') {
            return None;
        }
        let hashes_count = self.characters[self.position + prefix_count + 1..]
            .iter()
            .take_while(|character| **character == '#')
            .count();
        let quote_at = prefix_count + 1 + hashes_count;
        (self.peek(quote_at) == Some('"')).then_some((quote_at + 1, hashes_count))
    }

    /// Length of the character literal that starts here; a lifetime is none.
    fn character_literal(&self) -> Option<usize> {
        if self.peek(0) != Some('\'') {
            return None;
        }
        if self.peek(1) == Some('\\') {
            let closing = (3..12).find(|offset| self.peek(*offset) == Some('\''));
            return closing.map(|offset| offset + 1);
        }
        (self.peek(2) == Some('\'')).then_some(3)
    }

    fn take_comment(&mut self, count: usize) {
        for offset in 0..count {
            let character = self.characters[self.position + offset];
            self.line().comment.push(character);
            self.line().code.push(' ');
        }
        self.position += count;
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            self.line().code.push(' ');
        }
        self.position += count;
    }

    fn starts_with(&self, pattern: &str) -> bool {
        pattern
            .chars()
            .enumerate()
            .all(|(offset, character)| self.peek(offset) == Some(character))
    }

    fn peek(&self, offset: usize) -> Option<char> {
        self.characters.get(self.position + offset).copied()
    }

    fn line(&mut self) -> &mut Line {
        self.lines.last_mut().expect("there is always a line")
    }
}

/// Byte positions at which `word` stands in `code` as a whole word.
pub(crate) fn word_positions(code: &str, word: &str) -> Vec<usize> {
    code.match_indices(word)
        .map(|(position, _)| position)
        .filter(|position| {
            let before = code[..*position].chars().next_back();
            let after = code[position + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
        .collect()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with runs of blanks shortened, and sees that columns stay what they were.
    fn check(text: &str, code: &[&str], comments: &[&str]) {
        let lines = split(text);
        let found: Vec<String> = lines
            .iter()
            .map(|line| line.code.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let found_comments: Vec<&str> = lines.iter().map(|line| line.comment.as_str()).collect();
        assert_eq!(found, code);
        assert_eq!(found_comments, comments);
        for (line, whole) in lines.iter().zip(text.lines()) {
            assert_eq!(line.code.chars().count(), whole.chars().count());
        }
    }

    #[test]
    fn comments_and_code_part() {
        check(
            "let a = 1; // one\nb();",
            &["let a = 1;", "b();"],
            &["// one", ""],
        );
    }

    #[test]
    fn block_comments_nest_over_lines() {
        check(
            "a /* b /* c\nd */ e */ f",
            &["a", "f"],
            &["/* b /* c", "d */ e */"],
        );
    }

    #[test]
    fn literals_are_blank() {
        check(
            r#"f("a // b \" c", 'x', '\'', '"');"#,
            &["f( , , , );"],
            &[""],
        );
        check("f(r#\"a \" // b\"#);", &["f( );"], &[""]);
        check("f(b\"a\", \"two\nlines\");", &["f(b ,", ");"], &["", ""]);
    }

    #[test]
    fn lifetimes_are_code() {
        check(
            "fn f<'a>(x: &'a str) {}",
            &["fn f<'a>(x: &'a str) {}"],
            &[""],
        );
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(word_positions("unsafe_code unsafe {", "unsafe"), [12]);
    }
}
