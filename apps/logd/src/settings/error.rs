//! What is wrong with settings, and where.

use std::{
    fmt::Display,
    io,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

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
}

impl SettingsError {
    pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        let message = with_suggestion(error.message().trim_end());
        let before = text.get(..at).unwrap_or(text).trim_end();
        let key = before.strip_suffix('=').map(str::trim_end);
        let key = key.and_then(|before| before.rsplit([' ', '\t', '\n', '{', ',']).next());
        let key = key.map_or_else(String::new, |key| format!("`{key}`: "));
        Self::at(path, text, at, key + &message)
    }

    fn at(path: &Path, text: &str, at: usize, message: String) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_at = before.rfind('\n').map_or(0, |end| end + 1);
        Self::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_at..].chars().count() + 1,
            message,
        }
    }
}

/// Where settings come from: messages name them as the operator wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Origin {
    /// Flags of a command line.
    #[default]
    Flags,
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// What is in it.
        text: String,
    },
}

/// A table of the file, or the flag of the same name. `index` is among the tables of one name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) index: usize,
}

/// The tables of this name.
pub(super) fn numbered<'a, T>(
    name: &'static str,
    tables: &'a [T],
) -> impl Iterator<Item = (Table, &'a T)> {
    let tables = tables.iter().enumerate();
    tables.map(move |(index, table)| (Table { name, index }, table))
}

impl Origin {
    /// A setting with its value. `key` is empty if it is the main one of its table.
    pub(super) fn name(&self, table: Table, key: &str, value: impl Display) -> String {
        let table = table.name;
        match (self, table, key) {
            (Self::Flags, "stream", "") => format!("DIR {value}"),
            (Self::Flags, "stream", _) => format!("--{key} {value}"),
            (Self::Flags, _, "") => format!("--{table} {value}"),
            (Self::Flags, ..) => format!("--{table}-{key} {value}"),
            (Self::File { .. }, "status", _) => format!("{table} {value}"),
            (Self::File { .. }, _, "") => format!("[[{table}]] {value}"),
            (Self::File { .. }, ..) => format!("[[{table}]] {key} {value}"),
        }
    }

    /// What is wrong with a table.
    pub(super) fn invalid(&self, table: Table, why: impl Display) -> SettingsError {
        if let Self::File { path, text } = self
            && let Some(at) = begin_of(text, table)
        {
            return SettingsError::at(path, text, at, why.to_string());
        }
        SettingsError::Invalid(why.to_string())
    }
}

fn begin_of(text: &str, table: Table) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let (key, value) = root.get_ref().get_key_value(table.name)?;
    match value.get_ref() {
        DeValue::Array(tables) => Some(tables.get(table.index)?.span().start),
        _ => Some(key.span().start),
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
