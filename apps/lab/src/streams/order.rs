//! Reading back: each message is compared with the one that was written, and counted.

use serde::{Deserialize, Serialize};

use crate::figures::count;

use super::message::{Messages, NUMBER_BYTES, Number, Sizes};

/// What was read of the messages that were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Found {
    /// Messages that were read, each counted once.
    pub(super) read: u64,
    /// Their bytes.
    #[serde(skip)]
    pub(super) bytes: u64,
    /// Messages that were written and are not there.
    pub(super) lost: u64,
    /// Messages that come after a later one of their producer.
    pub(super) inverted: u64,
    /// Messages that come again.
    pub(super) repeated: u64,
    /// Records with bytes that nobody has written.
    pub(super) foreign: u64,
}

impl Found {
    /// How many are not as they were written.
    pub(super) const fn wrong(self) -> u64 {
        self.lost + self.inverted + self.repeated + self.foreign
    }

    /// What is wrong, in words.
    pub(super) fn sentence(self, written: u64) -> String {
        let counts = [self.lost, self.inverted, self.repeated, self.foreign];
        let [lost, inverted, repeated, foreign] = counts.map(count);
        format!(
            "of {} messages {lost} are lost, {inverted} out of order, {repeated} repeated, {foreign} records are foreign",
            count(written)
        )
    }

    pub(super) fn add(&mut self, other: Self) {
        self.read += other.read;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.inverted += other.inverted;
        self.repeated += other.repeated;
        self.foreign += other.foreign;
    }
}

/// Counts what is read of one writer's messages.
#[derive(Debug)]
pub(super) struct OrderCheck {
    messages: Messages,
    producers: Vec<Producer>,
    found: Found,
}

/// The messages of a producer that were read.
#[derive(Debug)]
struct Producer {
    written: u64,
    /// One more than the highest index that was read.
    next: u64,
    /// A bit for each.
    read: Vec<u64>,
}

impl OrderCheck {
    /// The number of messages of each producer.
    pub(super) fn new(writer: u32, sizes: Sizes, written: &[u64]) -> Self {
        let producer = |written: &u64| Producer {
            written: *written,
            next: 0,
            read: Vec::new(),
        };
        Self {
            messages: Messages::new(writer, sizes),
            producers: written.iter().map(producer).collect(),
            found: Found::default(),
        }
    }

    /// The size of the message with this number, in bytes; `None` if nobody has written one.
    pub(super) fn size(&self, number: [u8; NUMBER_BYTES]) -> Option<usize> {
        let number = Number::read(&number, Number::new(0, 0));
        let producer = self.producers.get(number.producer())?;
        (number.index() < producer.written).then(|| self.messages.sizes.of(number))
    }

    /// Counts a record.
    pub(super) fn read(&mut self, record: &[u8]) {
        let expected = Number::new(0, self.producers.first().map_or(0, |it| it.next));
        let number = Number::read(record, expected);
        let producer = self.producers.get_mut(number.producer());
        let index = number.index();
        let (Some(producer), true) = (
            producer.filter(|it| index < it.written),
            record == self.messages.get(number),
        ) else {
            self.found.foreign += 1;
            return;
        };
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if producer.read.len() <= word {
            producer.read.resize(word + 1, 0);
        }
        if producer.read[word] & bit != 0 {
            self.found.repeated += 1;
            return;
        }
        producer.read[word] |= bit;
        self.found.read += 1;
        self.found.bytes += record.len() as u64;
        if index < producer.next {
            self.found.inverted += 1;
        }
        producer.next = producer.next.max(index + 1);
    }

    /// Counts a piece that is no record.
    pub(super) fn read_foreign(&mut self) {
        self.found.foreign += 1;
    }

    /// Nothing else is there.
    pub(super) fn end(self) -> Found {
        let written: u64 = self.producers.iter().map(|it| it.written).sum();
        Found {
            lost: written - self.found.read,
            ..self.found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found if the messages of two producers come like this, ten of each written.
    fn found(size: &str, come: &[(u16, u64)]) -> Found {
        let sizes: Sizes = size.parse().expect("sizes");
        let mut messages = Messages::new(1, sizes);
        let mut check = OrderCheck::new(1, sizes, &[10, 10]);
        for (producer, index) in come {
            check.read(messages.get(Number::new(*producer, *index)));
        }
        check.end()
    }

    #[test]
    fn lost_inverted_repeated_and_foreign_messages_are_counted() {
        let whole: Vec<(u16, u64)> = (0..10).flat_map(|it| [(0, it), (1, it)]).collect();
        let check = |come: &[(u16, u64)], [lost, inverted, repeated, foreign]: [u64; 4]| {
            for size in ["8", "128", "8..300"] {
                let found = found(size, come);
                let counted = [found.lost, found.inverted, found.repeated, found.foreign];
                assert_eq!(counted, [lost, inverted, repeated, foreign], "{come:?}");
                assert_eq!(found.read, 20 - lost);
            }
        };
        check(&whole, [0; 4]);
        check(&whole[1..], [1, 0, 0, 0]);
        check(&[], [20, 0, 0, 0]);
        let mut come = whole.clone();
        come.reverse();
        check(&come, [0, 18, 0, 0]);
        // 0, 2, 1 of producer 0.
        come = whole.clone();
        come.swap(2, 4);
        check(&come, [0, 1, 0, 0]);
        come = whole.clone();
        come.extend([(1, 3), (2, 0), (0, 10)]);
        check(&come, [0, 0, 1, 2]);
    }

    #[test]
    fn messages_too_short_for_their_number_are_checked_in_order() {
        let sizes: Sizes = "1".parse().expect("a size");
        let mut messages = Messages::new(1, sizes);
        for (left_out, lost) in [(u64::MAX, 0), (300, 1)] {
            let mut check = OrderCheck::new(1, sizes, &[1_000]);
            for index in (0..1_000).filter(|it| *it != left_out) {
                check.read(messages.get(Number::new(0, index)));
            }
            assert_eq!(check.end().lost, lost);
        }
    }

    #[test]
    fn changed_bytes_are_foreign() {
        let sizes: Sizes = "128".parse().expect("a size");
        let mut check = OrderCheck::new(1, sizes, &[1]);
        let mut message = Messages::new(1, sizes).get(Number::new(0, 0)).to_vec();
        message[100] ^= 1;
        check.read(&message);
        check.read(&message[..100]);
        let found = check.end();
        assert_eq!((found.lost, found.foreign), (1, 2));
    }
}
