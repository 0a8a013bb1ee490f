//! The memory of a port: asks that may be sent again, and their replies. So the handler runs once for each.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    time::Duration,
};

use bytes::Bytes;
use freeboard_platform::clock;

use crate::{error::Failure, wire::NodeId};

/// Bounds of the replies: their count, their bytes, and their age.
const REPLIES_MAX: usize = 4_096;
const BYTES_MAX: usize = 16 * 1_024 * 1_024;
const TIME_MAX: Duration = Duration::from_secs(60);

/// The sender of an ask, and its number there.
pub(crate) type Request = (NodeId, u64);

/// A session, and a position in it.
pub(crate) type Asked = (u64, u64);

type Outcome = Result<Bytes, Failure>;

enum Entry {
    /// Its handler has not replied. These also wait for the reply. The window bounds the entries.
    Pending(Vec<Asked>),
    Done(Outcome),
}

/// What is known of an ask that has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recalled {
    New,
    /// The reply is also for this one.
    Pending,
    Done(Outcome),
}

#[derive(Default)]
pub(crate) struct Memory {
    entries: BTreeMap<Request, Entry>,
    /// Those that are answered, with the time and the bytes of the reply; the oldest first.
    done: VecDeque<(Request, u64, usize)>,
    bytes: usize,
}

impl Memory {
    /// An ask has come.
    pub(crate) fn recall(&mut self, request: &Request, asked: Asked) -> Recalled {
        match self.entries.get_mut(request) {
            None => {
                let pending = Entry::Pending(Vec::new());
                self.entries.insert(request.clone(), pending);
                Recalled::New
            }
            Some(Entry::Pending(waiting)) => {
                waiting.push(asked);
                Recalled::Pending
            }
            Some(Entry::Done(outcome)) => Recalled::Done(outcome.clone()),
        }
    }

    /// A new ask has this reply. Returns who else waits for it.
    pub(crate) fn answer(&mut self, request: Request, outcome: &Outcome) -> Vec<Asked> {
        let Some(entry) = self.entries.get_mut(&request) else {
            return Vec::new();
        };
        let Entry::Pending(waiting) = mem::replace(entry, Entry::Done(outcome.clone())) else {
            return Vec::new();
        };
        let (now_ns, bytes) = (clock::now_ns(), outcome.as_ref().map_or(0, Bytes::len));
        self.bytes += bytes;
        self.done.push_back((request, now_ns, bytes));
        self.forget(now_ns);
        waiting
    }

    /// Removes replies that are too old or too many.
    fn forget(&mut self, now_ns: u64) {
        let oldest_ns = now_ns.saturating_sub(TIME_MAX.as_nanos() as u64);
        let is_over = |it: &Self| it.done.len() > REPLIES_MAX || it.bytes > BYTES_MAX;
        while let Some((_, since_ns, _)) = self.done.front()
            && (is_over(self) || *since_ns < oldest_ns)
            && let Some((request, _, bytes)) = self.done.pop_front()
        {
            self.bytes -= bytes;
            self.entries.remove(&request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> Request {
        let node = NodeId {
            name: "a".to_owned(),
            incarnation: 1,
        };
        (node, number)
    }

    #[test]
    fn the_oldest_replies_are_forgotten_and_no_ask_without_a_reply() {
        let mut memory = Memory::default();
        let reply: Outcome = Ok(Bytes::from_static(b"reply"));
        assert_eq!(memory.recall(&request(0), (7, 0)), Recalled::New);
        for number in 1..=REPLIES_MAX as u64 + 1 {
            assert_eq!(memory.recall(&request(number), (7, number)), Recalled::New);
            assert_eq!(memory.answer(request(number), &reply), []);
        }
        assert_eq!(memory.recall(&request(1), (8, 1)), Recalled::New);
        assert_eq!(
            memory.recall(&request(2), (8, 2)),
            Recalled::Done(reply.clone())
        );
        assert_eq!(memory.recall(&request(0), (8, 0)), Recalled::Pending);
        assert_eq!(memory.answer(request(0), &reply), [(8, 0)]);
    }

    #[test]
    fn replies_are_bounded_in_bytes() {
        let mut memory = Memory::default();
        let reply: Outcome = Ok(Bytes::from(vec![0; BYTES_MAX / 4]));
        for number in 0..6 {
            assert_eq!(memory.recall(&request(number), (7, number)), Recalled::New);
            assert_eq!(memory.answer(request(number), &reply), []);
        }
        assert_eq!(memory.bytes, BYTES_MAX);
        assert_eq!(memory.recall(&request(1), (7, 9)), Recalled::New);
        assert_eq!(memory.recall(&request(2), (7, 9)), Recalled::Done(reply));
    }
}
