//! What is wrong with settings, and where.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::input::InputError;

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file has a mistake.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong, with a suggestion if there is one.
        message: String,
    },
    /// A setting is out of range, or two do not fit together.
    #[error("{0}")]
    Invalid(String),
    /// A certificate or a key cannot be used.
    #[error("{0}")]
    Certificate(#[from] InputError),
}

impl SettingsError {
    pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or(text);
        let line_at = before.rfind('\n').map_or(0, |end| end + 1);
        Self::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_at..].chars().count() + 1,
            message: with_suggestion(error.message().trim_end()),
        }
    }
}

/// serde says "unknown field `fiel`, expected one of `field`, ...": names the nearest one in place of all.
fn with_suggestion(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message.replace('\n', "; ");
    };
    // The odd parts are between backticks.
    let mut names = rest.split('`').step_by(2);
    let unknown = names.next().unwrap_or_default();
    let nearest = names
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min();
    match nearest {
        Some((distance, name)) if distance * 2 < unknown.len().max(4) => {
            format!("unknown key `{unknown}`; is it `{name}`?")
        }
        _ => format!("unknown key `{rest}"),
    }
}
