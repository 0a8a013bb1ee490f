//! Which node has which slots, as `CLUSTER SLOTS` says it.

use std::ops::RangeInclusive;

use super::address::Address;
use crate::{error::RedisError, from_value::FromValue, protocol::Value, routing::HASH_SLOTS};

/// Ranges of slots, each with its master. Replicas are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotMap {
    pub(crate) ranges: Vec<(RangeInclusive<u16>, Address)>,
}

impl SlotMap {
    /// Reads the answer of the node at `from`.
    pub(crate) fn read(answer: Value, from: &Address) -> Result<Self, RedisError> {
        let ranges = Vec::<Vec<Value>>::from_value(answer)?;
        let ranges: Option<Vec<_>> = ranges
            .into_iter()
            .map(|range| read_range(range, from))
            .collect();
        match ranges {
            Some(ranges) if !ranges.is_empty() => Ok(Self { ranges }),
            // Of a node that is not part of a cluster yet, nothing is to be learned.
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
    fn what_is_no_map_is_refused() {
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
