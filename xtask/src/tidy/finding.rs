//! One breach of one rule, at one place.

use std::fmt;
use std::path::PathBuf;

/// A breach of a rule. Sorted by place, so that the output follows the files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the workspace's root.
    pub(crate) path: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The rule's short name.
    pub(crate) rule: &'static str,
    /// What is wrong here and what to do about it.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            text,
        } = self;
        write!(formatter, "{}:{line}: {rule}: {text}", path.display())
    }
}
