//! What a message is known by.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The sender's name for a message: a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageId {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}
