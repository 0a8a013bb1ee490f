//! From addresses to names and lines.

use std::{fmt::Write as _, ptr};

use crate::stack::exchange::FRAMES_MAX;

pub(super) fn of(frames: &[usize]) -> String {
    let mut text = String::new();
    for (depth, &address) in frames.iter().enumerate() {
        // Names are sought one byte before the address, which in callers is where the call returns to;
        // the interrupted instruction itself is meant.
        let is_interrupted = depth == 0;
        add_lines(&mut text, address + usize::from(is_interrupted));
    }
    if frames.len() == FRAMES_MAX {
        text.push_str("(further callers left out)\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// A line for the function at `address`, and one for each that it is inlined into.
fn add_lines(text: &mut String, address: usize) {
    let length_before = text.len();
    backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
        let Some(name) = symbol.name() else {
            return;
        };
        // Without the hash at the end of a name. Writing to a string cannot fail.
        let _ = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => writeln!(text, "{name:#} ({}:{line})", file.display()),
            _ => writeln!(text, "{name:#}"),
        };
    });
    if text.len() == length_before {
        let _ = writeln!(text, "unknown function at {address:#x}");
    }
}
