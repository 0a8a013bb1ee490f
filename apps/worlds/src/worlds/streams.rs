//! Producers append to a stream while its node crashes and its disk fails; a consumer and a follower read it.
//!
//! ```text
//!   producers ──append, append_batch──▶ stream ──▶ consumer: acknowledges, writes snapshots
//!       │ tickets                         │   └──▶ follower: reads on at the end
//!       └────────────▶ Ledger ◀───────────┘ read back at each start, sometimes truncated before
//! ```
//!
//! It holds: an acknowledged record is there after each recovery, with its sequence and its bytes, unless retention has
//! removed it; a batch is there as a whole or not at all; readers get each durable record once, in order; a consumer's
//! position is at least what was said to be durable, and at most what it acknowledged; a snapshot that was written is found;
//! at the end the seal verifies. In half of the runs nothing is removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    sync::Arc,
    time::Duration,
};

use freeboard::{
    flow::LaneConfig,
    platform::thread,
    sim::{FaultRates, Machine, Random, World, note},
    stream::{
        Algorithm, AppendError, MasterKey, OpenError, ReadError, ReadFrom, ReaderOptions,
        Retention, SealUnit, SnapshotError, StreamOptions, StreamReader, StreamWriter, SyncMode,
        Ticket, TicketError, VerifyError, VerifyOptions, newest_snapshot,
        storage::simulated::{SimulatedDisk, SimulatedSettings},
        verify,
    },
};

use crate::record::{Mistakes, Record};

const RUN_TIME: Duration = Duration::from_secs(3);

/// The pause before a call that failed is tried again.
const PAUSE: Duration = Duration::from_millis(20);

const SEGMENT_BYTES: u64 = 64 << 10;

/// A follower has found what is durable after this time.
const FOLLOW_TIME: Duration = Duration::from_secs(2);

const CONSUMER: &str = "consumer";

/// A record's number, of all that were ever appended, and the numbers of its batch: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    number: u32,
    first: u32,
    count: u32,
}

impl Label {
    /// The record's bytes, which tell it from all others.
    fn payload(self) -> Vec<u8> {
        let Self {
            number,
            first,
            count,
        } = self;
        let bytes = 12 + number.wrapping_mul(997) as usize % 700;
        let mut payload = vec![number as u8; bytes];
        for (field, value) in payload.chunks_exact_mut(4).zip([number, first, count]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        payload
    }

    fn of(payload: &[u8]) -> Result<Self, String> {
        let field = |index: usize| {
            let bytes = payload.get(4 * index..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let label = field(0)
            .zip(field(1))
            .zip(field(2))
            .map(|((number, first), count)| Self {
                number,
                first,
                count,
            });
        let whole = label.filter(|label| label.payload() == payload);
        whole.ok_or_else(|| format!("a record of {} bytes that nobody appended", payload.len()))
    }
}

/// What was promised, and what was seen.
#[derive(Debug, Default)]
struct Ledger {
    /// The number of the last record.
    last_number: u32,
    /// How many of them may still be appended.
    left: usize,
    /// The numbers of the records whose tickets were resolved, by their sequences.
    acknowledged: BTreeMap<u64, u32>,
    /// The sequences of the last records of batches.
    ends: BTreeSet<u64>,
    /// The numbers of the durable records that the consumer has got.
    consumed: BTreeMap<u64, u32>,
    /// The position that the consumer has asked for, and the one that was said to be durable.
    asked: u64,
    noted: u64,
    /// The newest snapshot that was written.
    snapshot: u64,
    /// A truncation behind this sequence has begun.
    truncation: Option<u64>,
    /// Faults are over: all work comes to its end.
    is_over: bool,
    is_finished: bool,
}

impl Ledger {
    /// The records behind this one were removed.
    fn forget_after(&mut self, last: u64) {
        self.acknowledged.split_off(&(last + 1));
        self.consumed.split_off(&(last + 1));
        self.ends.split_off(&(last + 1));
        self.asked = self.asked.min(last);
        self.noted = self.noted.min(last);
        if self.snapshot > last {
            self.snapshot = 0;
        }
    }

    /// A ticket of a batch's last record was resolved.
    fn acknowledge(&mut self, label: Label, sequence: u64) -> Result<(), String> {
        let Label { first, count, .. } = label;
        for number in first..first + count {
            let sequence = (sequence + u64::from(number) + 1)
                .checked_sub(u64::from(first + count))
                .ok_or("a batch has sequences below 1")?;
            let before = self.acknowledged.insert(sequence, number);
            if before.is_some() || self.consumed.get(&sequence).is_some_and(|it| *it != number) {
                return Err(format!("sequence {sequence} was given to two records"));
            }
        }
        self.ends.insert(sequence);
        Ok(())
    }

    /// The stream was opened, and ends with this record.
    fn opened(&mut self, last: u64, rolls_back: bool) -> Result<(), String> {
        if let Some(kept) = self.truncation.take()
            && last <= kept
        {
            self.forget_after(kept);
        }
        if let Some((acknowledged, _)) = self.acknowledged.last_key_value()
            && *acknowledged > last
        {
            return Err(format!(
                "record {acknowledged} was acknowledged, and the last is {last}"
            ));
        }
        if rolls_back {
            // A record may have been durable, and read, before anybody was told.
            self.forget_after(last);
        }
        Ok(())
    }

    /// Compares the records that were read back with what was promised.
    fn check(&self, found: &Found, retention: Retention) -> Result<(), String> {
        let first = found.first;
        let may_be_gone = match retention {
            Retention {
                acknowledged: true, ..
            } => self.asked,
            it if it.is_bounded() => u64::MAX,
            _ => 0,
        };
        if first - 1 > may_be_gone {
            return Err(format!(
                "record {first} is the first, and records up to {may_be_gone} may be gone"
            ));
        }
        for (sequence, number) in self.acknowledged.range(first..) {
            match found.get(*sequence) {
                Some(label) if label.number == *number => {}
                other => {
                    return Err(format!(
                        "record {sequence} was acknowledged as number {number}, and is {other:?}"
                    ));
                }
            }
        }
        for (sequence, number) in self.consumed.range(first..) {
            let label = found.get(*sequence);
            if label.is_none_or(|label| label.number != *number) {
                return Err(format!(
                    "record {sequence} was read as number {number} when it was durable, and is {label:?}"
                ));
            }
        }
        let mut rest = found.labels.as_slice();
        let numbers: BTreeSet<_> = rest.iter().map(|label| label.number).collect();
        if numbers.len() < rest.len() {
            return Err("a record is there twice".to_owned());
        }
        while let Some(first) = rest.first() {
            let count = first.count as usize;
            let batch = rest.get(..count).unwrap_or(rest);
            let is_whole = batch.len() == count
                && (first.first..)
                    .zip(batch)
                    .all(|(number, label)| label.number == number && label.first == first.first);
            // A truncation may cut a batch only where it was asked to, which is at the end of one.
            if !is_whole {
                return Err(format!("a batch is there in part: {batch:?}"));
            }
            rest = &rest[count..];
        }
        Ok(())
    }
}

/// The records that were read back.
#[derive(Debug)]
struct Found {
    /// The sequence of the first one.
    first: u64,
    labels: Vec<Label>,
}

impl Found {
    fn get(&self, sequence: u64) -> Option<&Label> {
        self.labels.get((sequence - self.first) as usize)
    }

    /// The sequence of the last record.
    fn last(&self) -> u64 {
        self.first + self.labels.len() as u64 - 1
    }
}

/// What a follower has read.
#[derive(Debug, Default)]
struct Followed {
    /// The last record.
    last: u64,
    /// Why it reads no more.
    error: Option<ReadError>,
}

/// What all threads of a start of the node share.
#[derive(Clone)]
struct Store {
    options: StreamOptions,
    retention: Retention,
    rolls_back: bool,
    producers: usize,
    batch_max: usize,
    disk: SimulatedDisk,
    ledger: Record<Ledger>,
    mistakes: Mistakes,
    seed: u64,
}

fn key() -> MasterKey {
    MasterKey::new(b"a key for tests, and only for tests").expect("it is long enough")
}

fn reader_options() -> ReaderOptions {
    ReaderOptions::new().key(key())
}

impl Store {
    fn random(&self, purpose: &str) -> Random {
        Random::new(self.seed, purpose)
    }

    fn storage(&self) -> Arc<SimulatedDisk> {
        Arc::new(self.disk.clone())
    }

    fn spawn(
        &self,
        name: &str,
        body: impl FnOnce(&Self) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let store = self.clone();
        let builder = thread::Builder::new().name(name.to_owned());
        builder.spawn(move || body(&store)).expect("a thread")
    }

    fn expect(&self, outcome: Result<(), String>) {
        if let Err(text) = outcome {
            self.mistakes.note(text);
        }
    }

    /// Opens the stream until all is done: after a failed call it may have to be opened again.
    fn run(&self) {
        let mut random = self.random("store");
        loop {
            let Some(writer) = self.open(&mut random) else {
                thread::sleep(PAUSE);
                continue;
            };
            self.expect(self.check(&writer));
            self.work(&writer);
            let is_down = writer.check().is_err();
            let closed = writer.close();
            if self.ledger.lock().is_over && !is_down {
                self.expect(
                    closed
                        .map(drop)
                        .map_err(|error| format!("it does not close: {error}")),
                );
                self.ledger.lock().is_finished = true;
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    fn open(&self, random: &mut Random) -> Option<StreamWriter> {
        let kept = {
            let mut ledger = self.ledger.lock();
            let ends: Vec<_> = ledger.ends.iter().copied().collect();
            let is_wanted = !ends.is_empty() && ledger.truncation.is_none() && random.once_in(4);
            let kept = is_wanted.then(|| *random.choose(&ends));
            ledger.truncation = ledger.truncation.or(kept);
            kept
        };
        let opened = match kept {
            Some(kept) => {
                note(&format!("it opens, and removes the records behind {kept}"));
                self.options.open_truncated_on(self.storage(), kept)
            }
            None => self.options.open_on(self.storage()),
        };
        match opened {
            Ok(writer) => {
                let last = writer.sequences().durable;
                let checked = self.ledger.lock().opened(last, self.rolls_back);
                self.expect(checked);
                Some(writer)
            }
            Err(OpenError::Io { .. }) => None,
            Err(OpenError::Truncation { asked, first, .. })
                if asked < first && self.retention.is_bounded() =>
            {
                self.ledger.lock().truncation = None;
                None
            }
            Err(error) => {
                self.mistakes.note(format!("it does not open: {error}"));
                None
            }
        }
    }

    /// Reads everything back. Nothing is appended meanwhile.
    fn check(&self, writer: &StreamWriter) -> Result<(), String> {
        let opened = writer.sequences().durable;
        match read_back(&self.disk, self.retention)? {
            // A failed read says nothing.
            None => return Ok(()),
            Some(found) if found.last() != opened => {
                let last = found.last();
                return Err(format!(
                    "the last record that is read is {last}, and it was opened with {opened}"
                ));
            }
            Some(found) => {
                self.ledger.lock().check(&found, self.retention)?;
                note(&format!("records {} to {opened} are there", found.first));
            }
        }
        let position = position(writer);
        let (asked, noted, written) = {
            let ledger = self.ledger.lock();
            (ledger.asked, ledger.noted, ledger.snapshot)
        };
        if !(noted..=asked).contains(&position) {
            return Err(format!(
                "the consumer's position is {position}; {noted} was durable, and it had acknowledged {asked}"
            ));
        }
        self.ledger.lock().asked = position;
        let mut snapshot = match newest_snapshot(&self.disk, Some(&key())) {
            Ok(snapshot) => snapshot,
            Err(SnapshotError::Io { .. } | SnapshotError::Stream(VerifyError::Io { .. })) => {
                return Ok(());
            }
            Err(error) => return Err(format!("snapshots: {error}")),
        };
        let sequence = snapshot.as_ref().map_or(0, |it| it.sequence);
        if sequence < written || sequence > opened {
            return Err(format!(
                "the newest snapshot is of record {sequence} of {opened}; one of {written} was written"
            ));
        }
        let mut text = String::new();
        match snapshot.as_mut().map(|it| it.read_to_string(&mut text)) {
            Some(Ok(_)) if text != sequence.to_string() => {
                Err(format!("the snapshot of record {sequence} holds {text}"))
            }
            _ => Ok(()),
        }
    }

    /// Producers and readers, until all is done or the stream is down.
    fn work(&self, writer: &StreamWriter) {
        let mut threads = Vec::new();
        for producer in 0..self.producers {
            let writer = writer.clone();
            let name = format!("producer {producer}");
            let random = self.random(&name);
            threads.push(self.spawn(&name, move |store| store.produce(&writer, random)));
        }
        let consumed = writer.clone();
        threads.push(self.spawn("consumer", move |store| {
            while let Err(error) = store.consume(&consumed) {
                if consumed.check().is_err() {
                    return;
                }
                store.expect(error);
                thread::sleep(PAUSE);
            }
        }));
        let followed = Record::<Followed>::default();
        let from_start = followed.clone();
        let stop = ReaderOptions::follow(reader_options(), true).open_on(self.storage());
        let follower = stop.ok().map(|mut reader| {
            // No record may be there, but those that were: retention and a truncation have removed all.
            followed.lock().last = reader.next_sequence() - 1;
            let stop = reader.stop_handle();
            let thread = self.spawn("follower", move |store| {
                store.follow(&mut reader, &from_start);
            });
            (stop, thread)
        });
        for thread in threads {
            self.expect(thread.join().map_err(|_| "a thread panicked".to_owned()));
        }
        let Some((stop, thread)) = follower else {
            return;
        };
        // A record that a failed write has lost leads a follower astray.
        let is_steady = || writer.check().is_ok() && writer.snapshot().reopenings == 0;
        let until = freeboard::meter::clock::now() + FOLLOW_TIME;
        let durable = writer.sequences().durable;
        let is_behind = || followed.lock().last < durable;
        while is_behind() && !thread.is_finished() && is_steady() {
            if freeboard::meter::clock::now() > until {
                let at = followed.lock().last;
                self.mistakes.note(format!(
                    "the follower waits at {at}, and {durable} is durable"
                ));
                break;
            }
            thread::sleep(PAUSE);
        }
        stop.stop();
        self.expect(thread.join().map_err(|_| "a follower panicked".to_owned()));
        if let Some(error) = followed.lock().error.take()
            && is_steady()
        {
            self.expect(may_pass(error, self.retention.is_bounded()));
        }
    }

    fn produce(&self, writer: &StreamWriter, mut random: Random) {
        let mut waiting: Vec<(Label, Ticket)> = Vec::new();
        loop {
            let label = {
                let mut ledger = self.ledger.lock();
                if ledger.is_over || ledger.left == 0 {
                    break;
                }
                ledger.left -= 1;
                let count = match random.once_in(2) {
                    true => random.within(1..=self.batch_max) as u32,
                    false => 1,
                };
                let first = ledger.last_number + 1;
                ledger.last_number += count;
                Label {
                    number: first + count - 1,
                    first,
                    count,
                }
            };
            let appended = match label.count {
                1 => writer.append(&label.payload()),
                _ => {
                    let numbers = label.first..=label.number;
                    let payloads = numbers.map(|number| Label { number, ..label }.payload());
                    writer.append_batch(&payloads.collect::<Vec<_>>())
                }
            };
            match appended {
                Ok(mut ticket) => {
                    if random.once_in(2)
                        && let Some(outcome) = ticket.wait_timeout(PAUSE)
                    {
                        self.resolved(label, outcome);
                    } else {
                        waiting.push((label, ticket));
                    }
                }
                Err(AppendError::Down | AppendError::Closed) => break,
                Err(_) => thread::sleep(PAUSE),
            }
            if random.once_in(4) {
                writer.request_write();
            }
            if random.once_in(2) {
                thread::sleep(random.time(Duration::from_millis(60)));
            }
            waiting.retain(|(label, ticket)| {
                let outcome = ticket.try_get();
                outcome
                    .map(|outcome| self.resolved(*label, outcome))
                    .is_none()
            });
        }
        for (label, ticket) in waiting {
            self.resolved(label, ticket.wait());
        }
    }

    fn resolved(&self, label: Label, outcome: Result<u64, TicketError>) {
        if let Ok(sequence) = outcome {
            let acknowledged = self.ledger.lock().acknowledge(label, sequence);
            self.expect(acknowledged);
        }
    }

    /// Reads the durable records from the consumer's position on, until all is done. The error is `Ok` if a later attempt
    /// may succeed.
    fn consume(&self, writer: &StreamWriter) -> Result<(), Result<(), String>> {
        let mut random = self.random("consumer");
        let may_pass = |error| may_pass(error, self.is_lossy());
        let mut reader = reader_options().open_on(self.storage()).map_err(may_pass)?;
        let mut next = position(writer) + 1;
        match reader.seek(ReadFrom::Sequence(next)) {
            // The stream keeps what the consumer has not read only as long as it has space.
            Err(ReadError::Gone { oldest, .. }) if self.is_lossy() => next = oldest.max(next),
            sought => sought.map_err(may_pass)?,
        }
        loop {
            let durable = writer.sequences().durable;
            if next > durable {
                let is_over = self.ledger.lock().is_over;
                if is_over && writer.sequences().accepted < next {
                    return Ok(());
                }
                if writer.check().is_err() {
                    return Ok(());
                }
                thread::sleep(PAUSE);
                continue;
            }
            let Some(record) = reader.next_ref().map_err(may_pass)? else {
                return Err(Err(format!(
                    "{durable} is durable, and nothing is at {next}"
                )));
            };
            if record.sequence != next {
                return Err(Err(format!(
                    "record {} came, {next} is next",
                    record.sequence
                )));
            }
            let number = Label::of(record.payload).map_err(Err)?.number;
            {
                let mut ledger = self.ledger.lock();
                let before = ledger.consumed.insert(next, number).into_iter();
                let promised = ledger.acknowledged.get(&next).copied();
                if let Some(other) = before.chain(promised).find(|other| *other != number) {
                    return Err(Err(format!("record {next} is number {number} and {other}")));
                }
            }
            if random.once_in(3) {
                self.ledger.lock().asked = next;
                if let Ok(noted) = writer.acknowledge_as(CONSUMER, next) {
                    self.ledger.lock().noted = noted;
                }
            }
            if random.once_in(8) {
                let written =
                    writer.write_snapshot(next, |file| file.write_all(next.to_string().as_bytes()));
                if written.is_ok() {
                    let mut ledger = self.ledger.lock();
                    ledger.snapshot = ledger.snapshot.max(next);
                }
            }
            next += 1;
        }
    }

    /// Whether retention may remove what the consumer has not read.
    fn is_lossy(&self) -> bool {
        self.retention.is_bounded() && !self.retention.acknowledged
    }

    /// Reads everything, and waits at the end. Records come in order.
    fn follow(&self, reader: &mut StreamReader, followed: &Record<Followed>) {
        let mut may_begin_later = self.retention.is_bounded();
        for record in reader {
            let record = match record {
                Ok(record) => record,
                // A failed read, or a record that a failed write has taken back.
                Err(error) => return followed.lock().error = Some(error),
            };
            let before = std::mem::replace(&mut followed.lock().last, record.sequence);
            if record.sequence != before + 1 && !std::mem::take(&mut may_begin_later) {
                let text = format!("the follower got {} after {before}", record.sequence);
                self.mistakes.note(text);
            }
            let label = Label::of(&record.payload);
            self.expect(label.map(drop));
        }
    }
}

/// `Ok` if a later attempt may succeed. Retention may have removed the record that was read next, if it `removes`.
fn may_pass(error: ReadError, removes: bool) -> Result<(), String> {
    match error {
        ReadError::Io { .. } => Ok(()),
        ReadError::Gone { .. } if removes => Ok(()),
        error => Err(format!("the reader: {error}")),
    }
}

fn position(writer: &StreamWriter) -> u64 {
    let consumers = writer.consumers();
    let own = consumers.iter().find(|(name, _)| name == CONSUMER);
    own.map_or(0, |(_, position)| *position)
}

/// All records; `None` if a read failed.
fn read_back(disk: &SimulatedDisk, retention: Retention) -> Result<Option<Found>, String> {
    let reader = match reader_options().open_on(Arc::new(disk.clone())) {
        Ok(reader) => reader,
        Err(error) => return may_pass(error, retention.is_bounded()).map(|()| None),
    };
    let mut found = Found {
        first: reader.next_sequence(),
        labels: Vec::new(),
    };
    for record in reader {
        match record {
            Ok(record) if record.sequence == found.last() + 1 => {
                found.labels.push(Label::of(&record.payload)?);
            }
            Ok(record) => {
                return Err(format!("{} follows {}", record.sequence, found.last()));
            }
            Err(error) => return may_pass(error, retention.is_bounded()).map(|()| None),
        }
    }
    Ok(Some(found))
}

/// What the stream removes: nothing in half of the runs.
fn retention(random: &mut Random) -> Retention {
    let mut retention = Retention::default();
    match random.below(8) {
        0 | 1 => retention.acknowledged = true,
        2 => retention.bytes = Some(random.within(2..=3) as u64 * SEGMENT_BYTES),
        3 => retention.age = Some(random.time(RUN_TIME)),
        _ => {}
    }
    retention
}

pub(crate) fn run(world: &mut World) {
    let mistakes = Mistakes::watched(world);
    let ledger = Record::<Ledger>::default();
    ledger.lock().left = world.size("appends", 1..=40);
    let (producers, batch_max) = (world.size("producers", 1..=3), world.size("batch", 1..=5));
    let mut random = world.random("stream");
    let sync = match random.once_in(2) {
        true => SyncMode::Batch,
        false => SyncMode::Interval {
            time: random.time(Duration::from_millis(40)),
            bytes: 1 << 20,
        },
    };
    let rolls_back = random.once_in(4);
    let retention = retention(&mut world.random("retention"));
    let options = StreamOptions::new()
        .seal(
            Algorithm::Blake3,
            *random.choose(&[SealUnit::Record, SealUnit::Batch]),
        )
        .key(key())
        .sync(sync)
        .memory(LaneConfig::bounded(1 << 20))
        .flush_after(Duration::from_millis(10))
        .segment_bytes(SEGMENT_BYTES)
        .retention(retention)
        .rollback_unacknowledged(rolls_back)
        .shards(random.within(1..=2));
    let disk = SimulatedSettings {
        seed: random.number(),
        latency_max: random.time(Duration::from_millis(5)),
        is_direct: !random.once_in(3),
        ..SimulatedSettings::default()
    };
    let seed = random.number();
    let (shared, noted) = (ledger.clone(), mistakes.clone());
    let start = move |machine: &Machine| {
        let store = Store {
            options: options.clone(),
            retention,
            rolls_back,
            producers,
            batch_max,
            disk: machine.disk.clone(),
            ledger: shared.clone(),
            mistakes: noted.clone(),
            seed: seed + machine.starts,
        };
        drop(store.spawn("store", Store::run));
    };
    let node = world.node_with_disk("stream", disk, start);
    let rates = FaultRates {
        kills: 20.0,
        power_losses: 20.0,
        pauses: 6.0,
        skews: 4.0,
        disk_errors: 60.0,
        full_disks: 6.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    ledger.lock().is_over = true;
    world.run_until(|| ledger.lock().is_finished);

    let disk = node.disk();
    let found = read_back(&disk, retention)
        .expect("it is whole")
        .expect("no read fails");
    let checked = ledger.lock().check(&found, retention);
    checked.unwrap_or_else(|text| panic!("at the end: {text}"));
    if found.labels.is_empty() {
        return;
    }
    let report = verify(&disk, Some(&key()), &VerifyOptions::default(), &mut |_| {});
    let report = report.expect("it is checked");
    assert!(
        report.is_whole() && report.records == found.labels.len() as u64,
        "{report:?}"
    );
}
