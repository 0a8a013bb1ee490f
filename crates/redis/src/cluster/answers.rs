//! Answers of cluster nodes: addresses, redirections, and the slot map of `CLUSTER SLOTS`.

use std::{fmt, ops::RangeInclusive};

use crate::{
    error::RedisError,
    from_value::FromValue,
    protocol::{ServerError, Value},
    routing::HASH_SLOTS,
};

/// The host and port of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Parses `host:port`. A node that does not know its own host omits it; then it is the host of `from`.
    pub(crate) fn parse(text: &str, from: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        Some(Self::new(host, port, from))
    }

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

/// A node's request to retry a command elsewhere or later. The command was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// To another node. `moved` is the slot that it owns now (`MOVED`). Without it, the slot is migrating there, and
    /// the key is there already or is new (`ASK`).
    To { node: Address, moved: Option<u16> },
    /// Some of the keys have migrated, or the slot has no owner now.
    Later,
}

impl Redirection {
    /// Parses an error of the node at `from`.
    pub(crate) fn of(error: &ServerError, from: &Address) -> Option<Self> {
        let code = error.code();
        if code == "TRYAGAIN" || code == "CLUSTERDOWN" {
            return Some(Self::Later);
        }
        if code != "MOVED" && code != "ASK" {
            return None;
        }
        let (slot, node) = error.message().split_once(' ')?;
        let slot = slot.parse().ok().filter(|slot| *slot < HASH_SLOTS)?;
        Some(Self::To {
            node: Address::parse(node, from)?,
            moved: (code == "MOVED").then_some(slot),
        })
    }
}

/// Ranges of slots, each with its master. Replicas are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotMap {
    pub(crate) ranges: Vec<(RangeInclusive<u16>, Address)>,
}

impl SlotMap {
    /// Parses the answer of the node at `from`.
    pub(crate) fn read(answer: Value, from: &Address) -> Result<Self, RedisError> {
        let ranges = Vec::<Vec<Value>>::from_value(answer)?;
        let ranges: Option<Vec<_>> = ranges
            .into_iter()
            .map(|range| read_range(range, from))
            .collect();
        match ranges {
            Some(ranges) if !ranges.is_empty() => Ok(Self { ranges }),
            // The node is not part of a cluster yet.
            Some(_) => Err(wrong("none")),
            None => Err(wrong("something else")),
        }
    }
}

fn wrong(came: &'static str) -> RedisError {
    RedisError::WrongType {
        wanted: "slots of a cluster",
        came,
    }
}

fn read_range(range: Vec<Value>, from: &Address) -> Option<(RangeInclusive<u16>, Address)> {
    let mut parts = range.into_iter();
    let mut slot = || -> Option<u16> {
        let slot = u64::from_value(parts.next()?).ok()?;
        u16::try_from(slot).ok().filter(|slot| *slot < HASH_SLOTS)
    };
    let slots = slot()?..=slot()?;
    let Value::Array(master) = parts.next()? else {
        return None;
    };
    let mut master = master.into_iter();
    let host = Option::<String>::from_value(master.next()?).ok()?;
    let port = u64::from_value(master.next()?).ok()?;
    let port = u16::try_from(port).ok()?;
    Some((slots, Address::new(&host.unwrap_or_default(), port, from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Limits, Parser};

    #[test]
    fn refusals_say_where_to_go() {
        let from = Address {
            host: "10.0.0.1".to_owned(),
            port: 7000,
        };
        let check = |text: &str, wanted: Option<Redirection>| {
            assert_eq!(
                Redirection::of(&ServerError::new(text), &from),
                wanted,
                "{text}"
            );
        };
        let at = |host: &str, port| Address {
            host: host.to_owned(),
            port,
        };
        let redirected = |node, moved| Some(Redirection::To { node, moved });
        let moved = |node| redirected(node, Some(3999));
        check("MOVED 3999 127.0.0.1:6381", moved(at("127.0.0.1", 6381)));
        check("MOVED 3999 :6381", moved(at("10.0.0.1", 6381)));
        check("MOVED 3999 ?:6381", moved(at("10.0.0.1", 6381)));
        check(
            "MOVED 3999 2001:db8::1:6381",
            moved(at("2001:db8::1", 6381)),
        );
        check("ASK 1 node-2:1", redirected(at("node-2", 1), None));
        check("TRYAGAIN Multiple keys", Some(Redirection::Later));
        check("CLUSTERDOWN The cluster is down", Some(Redirection::Later));
        check("MOVED 16384 127.0.0.1:6381", None);
        check("MOVED 1 127.0.0.1", None);
        check("MOVED 1 127.0.0.1:66666", None);
        check("MOVED", None);
        check("MOVEDX 1 127.0.0.1:1", None);
        check("WRONGTYPE no", None);
    }

    fn read(mut stream: &[u8]) -> Result<SlotMap, RedisError> {
        let from = Address {
            host: "10.0.0.9".to_owned(),
            port: 1,
        };
        let value = Parser::new(Limits::default()).next(&mut stream);
        SlotMap::read(value.unwrap().unwrap(), &from)
    }

    #[test]
    fn masters_are_read_and_replicas_left_out() {
        let map = read(
            b"*2\r\n*4\r\n:0\r\n:99\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n*0\r\n\
              *3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$2\r\nir\r\n\
              *3\r\n:100\r\n:16383\r\n*2\r\n_\r\n:7001\r\n",
        );
        let ranges = map.unwrap().ranges;
        let texts: Vec<String> = ranges
            .iter()
            .map(|(slots, address)| format!("{slots:?} {address}"))
            .collect();
        assert_eq!(
            texts,
            ["0..=99 127.0.0.1:7000", "100..=16383 10.0.0.9:7001"]
        );
    }

    #[test]
    fn malformed_maps_are_refused() {
        let check = |stream: &[u8]| {
            let outcome = read(stream);
            assert!(outcome.is_err(), "{outcome:?}");
        };
        check(b"*0\r\n");
        check(b"+OK\r\n");
        check(b"-ERR This instance has cluster support disabled\r\n");
        check(b"*1\r\n*2\r\n:0\r\n:1\r\n");
        check(b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n");
        check(b"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:99999\r\n");
        check(b"*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n");
    }
}
