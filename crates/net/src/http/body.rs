//! The body of an answer.

use bytes::Bytes;

/// The body of an answer.
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// Pieces, asked for one after the other as the peer takes them; sent in chunks to a client of
    /// HTTP/1.1, and to the end of the connection to one of HTTP/1.0.
    Pieces(Box<dyn Iterator<Item = Bytes> + Send>),
}

impl Body {
    /// Pieces out of an iterator. Empty ones are passed over.
    pub fn pieces(pieces: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> Self {
        Self::Pieces(Box::new(pieces.into_iter()))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Full(Bytes::new())
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Self::Full(bytes.into())
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => write!(formatter, "Full({} bytes)", bytes.len()),
            Self::Pieces(_) => formatter.write_str("Pieces"),
        }
    }
}
