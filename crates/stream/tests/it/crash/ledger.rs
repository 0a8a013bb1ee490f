//! What was accepted, and what it was promised.

use super::read_back::Found;

/// What a record has been promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// To be there whatever happens, under this sequence.
    Durable(u64),
    /// To be there unless the power fails, under this sequence.
    Handed(u64),
    /// Nothing: it may be there or not, under this sequence if it once had one.
    Open(Option<u64>),
    /// Not to be there: it was not accepted, not written, or was once found missing.
    Gone,
}

impl Promise {
    fn sequence(self) -> Option<u64> {
        match self {
            Self::Durable(sequence) | Self::Handed(sequence) => Some(sequence),
            Self::Open(sequence) => sequence,
            Self::Gone => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) bytes: usize,
    pub(crate) promise: Promise,
    /// The life in which it was appended.
    pub(crate) life: u32,
}

/// The records of all producers, by index.
#[derive(Debug)]
pub(crate) struct Ledger {
    producers: Vec<Vec<Entry>>,
}

const HEAD_BYTES: usize = 5;

/// What a record holds: who appended it, which of his it is, and bytes that tell it from others.
pub(crate) fn payload(producer: usize, index: usize, bytes: usize) -> Vec<u8> {
    let mut payload = vec![(producer * 83 + index * 7 + 1) as u8; bytes.max(HEAD_BYTES)];
    payload[0] = producer as u8;
    payload[1..HEAD_BYTES].copy_from_slice(&(index as u32).to_le_bytes());
    payload
}

fn source(payload: &[u8]) -> Option<(usize, usize)> {
    let (producer, rest) = payload.split_first()?;
    let index = u32::from_le_bytes(*rest.first_chunk()?);
    Some(((*producer).into(), index as usize))
}

impl Ledger {
    pub(crate) fn new(producers: usize) -> Self {
        Self {
            producers: vec![Vec::new(); producers],
        }
    }

    /// The index of a producer's next record.
    pub(crate) fn next_index(&self, producer: usize) -> usize {
        self.producers[producer].len()
    }

    pub(crate) fn add(&mut self, producer: usize, entries: Vec<Entry>) {
        self.producers[producer].extend(entries);
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.producers.iter_mut().flatten()
    }

    /// The power has failed.
    pub(crate) fn lose_power(&mut self) {
        for entry in self.entries() {
            if let Promise::Handed(sequence) = entry.promise {
                entry.promise = Promise::Open(Some(sequence));
            }
        }
    }

    /// The stream was closed in order, which makes all durable.
    pub(crate) fn close(&mut self) {
        for entry in self.entries() {
            if let Promise::Handed(sequence) = entry.promise {
                entry.promise = Promise::Durable(sequence);
            }
        }
    }

    /// Compares what was read back with what was promised, and takes over what is known now.
    ///
    /// `is_from_device` says that what was found is durable; `is_orderly` that no call failed in the
    /// last life, so that what is missing of it can only be an end.
    pub(crate) fn check(
        &mut self,
        found: &Found,
        is_from_device: bool,
        is_orderly: bool,
        is_retained: bool,
    ) -> Result<(), String> {
        let mut is_found: Vec<Vec<Option<u64>>> = self
            .producers
            .iter()
            .map(|entries| vec![None; entries.len()])
            .collect();
        let mut last: Vec<Option<usize>> = vec![None; self.producers.len()];
        for (sequence, bytes) in &found.records {
            let named = source(bytes).filter(|(producer, _)| *producer < self.producers.len());
            let Some((producer, index)) = named else {
                return Err(format!("record {sequence} is nobody's: {bytes:?}"));
            };
            let what = format!("record {sequence}, the {index}th of producer {producer}");
            let Some(entry) = self.producers[producer].get(index) else {
                return Err(format!("{what}, was never appended"));
            };
            if *bytes != payload(producer, index, entry.bytes) {
                return Err(format!("{what}, has other bytes"));
            }
            if last[producer].is_some_and(|last| last >= index) {
                return Err(format!("{what}, comes after {:?}", last[producer]));
            }
            last[producer] = Some(index);
            match entry.promise {
                Promise::Gone => return Err(format!("{what}, must not be there")),
                promise
                    if promise
                        .sequence()
                        .is_some_and(|promised| promised != *sequence) =>
                {
                    return Err(format!("{what}, was {promise:?}"));
                }
                _ => is_found[producer][index] = Some(*sequence),
            }
        }
        let life = self.entries().map(|entry| entry.life).max();
        for (producer, is_found) in is_found.iter().enumerate() {
            let mut missing = None;
            for (index, sequence) in is_found.iter().enumerate() {
                let entry = &mut self.producers[producer][index];
                let what = format!("the {index}th record of producer {producer}, {entry:?}");
                let is_of_last_life = Some(entry.life) == life;
                let known = entry.promise.sequence();
                let is_retired = is_retained && known.is_some_and(|known| known < found.first);
                entry.promise = match (entry.promise, *sequence) {
                    (Promise::Durable(_), Some(sequence)) => Promise::Durable(sequence),
                    (_, Some(sequence)) if is_from_device => Promise::Durable(sequence),
                    (_, Some(sequence)) => Promise::Handed(sequence),
                    (Promise::Durable(_) | Promise::Handed(_), None) if !is_retired => {
                        return Err(format!("{what}, is lost; {}", found.extent()));
                    }
                    (_, None) => Promise::Gone,
                };
                match sequence {
                    // What retention took was there before.
                    None if is_of_last_life && !is_retired => missing = missing.or(Some(index)),
                    Some(_) if is_orderly && is_of_last_life && missing.is_some() => {
                        return Err(format!("{what}, is there, and {missing:?} is not"));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
