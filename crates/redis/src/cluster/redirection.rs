//! What a node of a cluster answers instead of carrying a command out.

use super::address::Address;
use crate::{
    protocol::{ServerError, Value},
    routing::HASH_SLOTS,
    unit::Unit,
};

/// Where, or when, a command is to be tried again. It was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// The slot is another node's.
    Moved { slot: u16, to: Address },
    /// The slot is on its way to another node, and the key has gone ahead or is new.
    Ask { to: Address },
    /// Some of the keys have gone ahead, or nobody has the slot at present.
    Later,
}

impl Redirection {
    /// What a refusal by the node at `from` asks for.
    pub(crate) fn of(error: &ServerError, from: &Address) -> Option<Self> {
        let code = error.code();
        if code == "TRYAGAIN" || code == "CLUSTERDOWN" {
            return Some(Self::Later);
        }
        if code != "MOVED" && code != "ASK" {
            return None;
        }
        let (slot, to) = error.message().split_once(' ')?;
        let slot = slot.parse().ok().filter(|slot| *slot < HASH_SLOTS)?;
        let to = Address::parse(to, from)?;
        Some(match code {
            "MOVED" => Self::Moved { slot, to },
            _ => Self::Ask { to },
        })
    }

    /// What the replies of a unit ask for. Of those of a pipeline it is what the last one does.
    pub(crate) fn of_reply(unit: &Unit, reply: &Value, from: &Address) -> Option<Self> {
        let refusal = match (unit, reply) {
            (Unit::One(_), Value::Error(error)) => error,
            (Unit::Several(several), Value::Array(replies)) if several.is_atomic() => {
                refusal_of_transaction(replies)?
            }
            (Unit::Several(_), Value::Array(replies)) => {
                let mut last_first = replies.iter().rev();
                return last_first.find_map(|reply| Self::of(as_error(reply)?, from));
            }
            _ => return None,
        };
        Self::of(refusal, from)
    }
}

/// Why none of a transaction was carried out: `EXEC` says it, or the first command that was not taken.
fn refusal_of_transaction(replies: &[Value]) -> Option<&ServerError> {
    let error = as_error(replies.last()?)?;
    match error.code() {
        "EXECABORT" => replies.iter().find_map(as_error),
        _ => Some(error),
    }
}

pub(crate) fn as_error(reply: &Value) -> Option<&ServerError> {
    match reply {
        Value::Error(error) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let moved = |to| Some(Redirection::Moved { slot: 3999, to });
        check("MOVED 3999 127.0.0.1:6381", moved(at("127.0.0.1", 6381)));
        check("MOVED 3999 :6381", moved(at("10.0.0.1", 6381)));
        check("MOVED 3999 ?:6381", moved(at("10.0.0.1", 6381)));
        check(
            "MOVED 3999 2001:db8::1:6381",
            moved(at("2001:db8::1", 6381)),
        );
        let to = at("node-2", 1);
        check("ASK 1 node-2:1", Some(Redirection::Ask { to }));
        check("TRYAGAIN Multiple keys", Some(Redirection::Later));
        check("CLUSTERDOWN The cluster is down", Some(Redirection::Later));
        check("MOVED 16384 127.0.0.1:6381", None);
        check("MOVED 1 127.0.0.1", None);
        check("MOVED 1 127.0.0.1:66666", None);
        check("MOVED", None);
        check("MOVEDX 1 127.0.0.1:1", None);
        check("WRONGTYPE no", None);
    }
}
