//! Where a node is.

use std::fmt;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// From `host:port` as nodes write it. A node that does not know its own host leaves it out: it is the
    /// one that it was reached by.
    pub(crate) fn parse(text: &str, from: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        Some(Self::new(host, port, from))
    }

    /// As above.
    pub(crate) fn new(host: &str, port: u16, from: &Self) -> Self {
        let is_unknown = host.is_empty() || host == "?";
        let host = if is_unknown { &from.host } else { host };
        Self {
            host: host.to_owned(),
            port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}
