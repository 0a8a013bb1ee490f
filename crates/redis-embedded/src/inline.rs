//! A request as a person types it: words between blanks, some of them in quotes.
//!
//! Double quotes know `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and take any other escaped byte as it is; single quotes
//! know `\'` only. What ends a quote ends the word. As `sdssplitargs` of Redis has it.

use crate::arguments::Place;

/// The words of a line, one behind the other in `text`. `false` if a quote is not closed, or not at the end of its
/// word.
pub(crate) fn split(line: &[u8], text: &mut Vec<u8>, places: &mut Vec<Place>) -> bool {
    let mut rest = line;
    loop {
        while let Some((first, behind)) = rest.split_first()
            && is_blank(*first)
        {
            rest = behind;
        }
        if rest.is_empty() {
            return true;
        }
        let start = text.len();
        let Some(behind) = word(rest, text) else {
            return false;
        };
        rest = behind;
        places.extend(Place::new(start, text.len()));
    }
}

/// As C's `isspace`, which has the vertical tab and Rust's has not.
const fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Takes a word, and gives what is behind it.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let Some((&first, behind)) = rest.split_first() {
        match first {
            b'"' => return ended(double_quoted(behind, text)?),
            b'\'' => return ended(single_quoted(behind, text)?),
            _ if is_blank(first) => return Some(rest),
            _ => text.push(first),
        }
        rest = behind;
    }
    Some(rest)
}

/// Behind a closing quote there is a blank or nothing.
fn ended(rest: &[u8]) -> Option<&[u8]> {
    rest.first()
        .is_none_or(|&byte| is_blank(byte))
        .then_some(rest)
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'x', high, low, behind @ ..]
                if let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low)) =>
            {
                (high << 4 | low, behind)
            }
            [b'\\', escaped, behind @ ..] => (unescaped(*escaped), behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        text.push(byte);
        rest = behind;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = match rest {
            [b'\'', behind @ ..] => return Some(behind),
            [b'\\', b'\'', behind @ ..] => (b'\'', behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        text.push(byte);
        rest = behind;
    }
}

fn hexadecimal(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

const fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}
