//! Which records of other servers' streams are here already: a request that a relay repeats is not written twice.
//!
//! A relay repeats a request that it saw no answer to, and a relay that was killed cuts the same records into other requests.
//! So each record is looked up by itself, by its stream and its sequence:
//!
//! | the record | what happens |
//! |---|---|
//! | is durable here | it is skipped |
//! | came with a request that is not finished | 503: the relay sends it again, and finds it durable then |
//! | is new | it is taken |
//!
//! The ranges are in memory. After a restart, what had become durable and was not answered comes again, and is written
//! twice: at least once. The same holds for a request of which a line was shed. A record does not name the stream and the
//! sequence that it was relayed from, so the ranges cannot be read back from the server's own stream. Durable ranges would
//! have to become durable with the lines, in each sink: a line that one of two sinks has lost at the restart must come again.
//! A stream that was truncated uses sequences again; no log server truncates one.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;

use crate::server::ServerHandle;

/// Streams that are remembered; the least recently used one is forgotten.
const STREAMS_MAX: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// Ranges of a stream that are remembered; the oldest is forgotten. There is one for each request at work and each gap.
const RANGES_MAX: usize = 256;

/// Sequences from the first to before the second.
type Span = (u64, u64);

#[derive(Debug, Default)]
struct Stream {
    /// Durable here, in order, without overlaps.
    durable: Vec<Span>,
    /// By the number of their requests.
    at_work: Vec<(u64, Span)>,
}

impl Stream {
    fn add(&mut self, (mut first, mut end): Span) {
        let begin = self.durable.partition_point(|&(_, other)| other < first);
        let after = self.durable.partition_point(|&(other, _)| other <= end);
        if let Some(&(other, _)) = self.durable[begin..after].first() {
            first = first.min(other);
        }
        if let Some(&(_, other)) = self.durable[begin..after].last() {
            end = end.max(other);
        }
        self.durable.splice(begin..after, [(first, end)]);
        if self.durable.len() > RANGES_MAX {
            self.durable.remove(0);
        }
    }

    fn is_durable(&self, sequence: u64) -> bool {
        let after = self
            .durable
            .partition_point(|&(first, _)| first <= sequence);
        after > 0 && sequence < self.durable[after - 1].1
    }
}

#[derive(Debug)]
struct State {
    streams: LruCache<u128, Stream>,
    requests: u64,
}

/// The records that came from relays.
#[derive(Debug)]
pub(crate) struct Relayed(Mutex<State>);

impl Default for Relayed {
    fn default() -> Self {
        Self(Mutex::new(State {
            streams: LruCache::new(STREAMS_MAX),
            requests: 0,
        }))
    }
}

impl Relayed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is to be taken.
    New,
    /// It is here already.
    Durable,
    /// Another request has brought it, and is not finished.
    AtWork,
}

/// A request of a relay. What it has brought counts as durable once [`finish`](Self::finish) says so.
pub(super) struct RelayedRequest {
    server: ServerHandle,
    stream: u128,
    number: u64,
    first: u64,
}

impl RelayedRequest {
    /// The records of this stream from this sequence on. `None`: it is no id, or no sequence.
    pub(super) fn begin(server: &ServerHandle, stream: &str, first: &str) -> Option<Self> {
        let is_id = stream.len() == 32 && stream.bytes().all(|byte| byte.is_ascii_hexdigit());
        let stream = u128::from_str_radix(stream, 16).ok().filter(|_| is_id)?;
        let first = first.parse().ok()?;
        let mut state = server.relayed().lock();
        state.requests += 1;
        let number = state.requests;
        drop(state);
        Some(Self {
            server: server.clone(),
            stream,
            number,
            first,
        })
    }

    /// Says what to do with its record of this index. They come in order.
    pub(super) fn admit(&self, index: u64) -> Admission {
        let sequence = self.first.saturating_add(index);
        let mut state = self.server.relayed().lock();
        let stream = state
            .streams
            .get_or_insert_mut(self.stream, Stream::default);
        if stream.is_durable(sequence) {
            return Admission::Durable;
        }
        let is_in = |(first, end): Span| (first..end).contains(&sequence);
        let mut others = stream.at_work.iter();
        if others.any(|&(number, span)| number != self.number && is_in(span)) {
            return Admission::AtWork;
        }
        let own = stream
            .at_work
            .iter_mut()
            .find(|(number, _)| *number == self.number);
        let end = sequence.saturating_add(1);
        match own {
            Some((_, span)) => span.1 = end,
            None => stream.at_work.push((self.number, (sequence, end))),
        }
        Admission::New
    }

    /// All that it has brought is durable, or some of it was lost.
    pub(super) fn finish(&self, is_durable: bool) {
        let mut state = self.server.relayed().lock();
        let Some(stream) = state.streams.get_mut(&self.stream) else {
            return;
        };
        let own = stream
            .at_work
            .iter()
            .position(|(number, _)| *number == self.number);
        if let Some(own) = own {
            let (_, span) = stream.at_work.swap_remove(own);
            if is_durable {
                stream.add(span);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_hold_what_was_added(spans in prop::collection::vec((0..60_u64, 1..9_u64), 0..20)) {
            let mut stream = Stream::default();
            let mut model = BTreeSet::new();
            for (first, records) in spans {
                stream.add((first, first + records));
                model.extend(first..first + records);
            }
            for sequence in 0..80 {
                prop_assert_eq!(stream.is_durable(sequence), model.contains(&sequence));
            }
            // In order, and no two of them touch.
            prop_assert!(stream.durable.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
