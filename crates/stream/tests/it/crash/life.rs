//! One opening of the stream, to its end.

use std::sync::Arc;

use freeboard_platform::thread;
use freeboard_stream::{
    OpenError, StreamWriter, SyncMode,
    storage::simulated::{Fault, SimulatedDisk},
};

use super::{
    case::Case,
    cross_check::cross_check,
    dice::Dice,
    ledger::{Entry, Ledger},
    produce::{Sent, produce},
    read_back::read_back,
};

/// How a life ends, if it gets that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The power fails during this call, or when the producers have ended.
    PowerFails { call: u64 },
    /// The process is killed when the producers have ended.
    Killed,
    /// It is closed, and the power fails then.
    Closed,
}

/// One opening of the stream.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) sync: SyncMode,
    pub(crate) ending: Ending,
    /// Calls that fail, and with what.
    pub(crate) faults: Vec<(u64, Fault)>,
}

/// A stream through its lives.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    case: &'a Case,
    disk: SimulatedDisk,
    ledger: Ledger,
    lives: u32,
    /// Whether the disk was started by a power failure since it was written.
    is_from_device: bool,
    /// Whether no call failed in the last life.
    is_orderly: bool,
    /// Whether a power failure may have left damage with valid data behind it, which only mode none
    /// may.
    is_damage_excused: bool,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(case: &'a Case) -> Self {
        Self {
            case,
            disk: SimulatedDisk::new(case.disk),
            ledger: Ledger::new(case.producers),
            lives: 0,
            is_from_device: true,
            is_orderly: true,
            is_damage_excused: false,
        }
    }

    /// Lives one life. `Ok(false)` says that the stream could not be opened, and may not be: what is
    /// whole was found to be right.
    pub(crate) fn live(&mut self, life: &Life, dice: &mut Dice) -> Result<bool, String> {
        if let Ending::PowerFails { call } = life.ending {
            self.disk.power_fails_at(call);
        }
        for (call, fault) in &life.faults {
            self.disk.fail_at(*call, *fault);
        }
        self.lives += 1;
        let options = self.case.options(life.sync);
        let writer = match options.open_on(Arc::new(self.disk.clone())) {
            Ok(writer) => writer,
            Err(OpenError::Damaged(_) | OpenError::Format { .. }) if self.is_damage_excused => {
                // Read in peace: what was to fail in this life may be yet to come.
                if self.disk.is_on() {
                    self.disk = self.disk.kill();
                } else {
                    self.power_failed();
                }
                // Segments whose headers are lost may be missing in front, too.
                self.is_orderly = false;
                self.check().map(drop)?;
                return Ok(false);
            }
            Err(_) if !self.disk.is_on() => {
                self.power_failed();
                return Ok(true);
            }
            Err(OpenError::Io { .. }) if !life.faults.is_empty() => {
                // A sync that failed has lost what was only handed over, as a power failure does.
                self.ledger.lose_power();
                self.disk = self.disk.kill();
                return Ok(true);
            }
            Err(error) => return Err(format!("it cannot be opened: {error}")),
        };
        if self.disk.is_on() && life.faults.is_empty() {
            let checked = self.check().and_then(|rest| rest.map_or(Ok(()), Err));
            match checked {
                Err(reason) if self.disk.is_on() => {
                    return Err(format!("read back after opening: {reason}"));
                }
                // What survived a power failure is on the device.
                Ok(()) if self.is_from_device => self.is_damage_excused = false,
                _ => {}
            }
            // Its calls would bring a power failure nearer, and retention may take what it reads.
            let is_quiet = !matches!(life.ending, Ending::PowerFails { .. });
            if is_quiet && !self.case.retention.is_bounded() {
                let found = read_back(&self.disk).map_err(|error| error.to_string())?;
                cross_check(&self.disk, &found)?;
            }
        }
        let sent = self.produce(&writer, dice);
        self.end(life, writer, sent)?;
        Ok(true)
    }

    fn produce(&self, writer: &StreamWriter, dice: &mut Dice) -> Vec<Vec<Sent>> {
        let producers: Vec<_> = (0..self.case.producers)
            .map(|producer| {
                let (writer, case) = (writer.clone(), self.case.clone());
                let first_index = self.ledger.next_index(producer);
                let mut dice = Dice::new(dice.next());
                let body = move || produce(&writer, producer, first_index, &case, &mut dice);
                let builder = thread::Builder::new().name(format!("producer-{producer}"));
                builder.spawn(body).expect("a thread")
            })
            .collect();
        let ended = producers.into_iter().map(|producer| producer.join());
        ended
            .map(|sent| sent.expect("a producer does not panic"))
            .collect()
    }

    fn end(
        &mut self,
        life: &Life,
        writer: StreamWriter,
        sent: Vec<Vec<Sent>>,
    ) -> Result<(), String> {
        self.is_orderly = life.faults.is_empty();
        let mut is_closed = false;
        match life.ending {
            Ending::PowerFails { .. } => {
                self.disk.power_off();
                drop(writer);
            }
            Ending::Killed => {
                let next = self.disk.kill();
                drop(writer);
                self.disk = next;
            }
            Ending::Closed => match writer.close() {
                Ok(_) => is_closed = true,
                Err(_) if !life.faults.is_empty() => {}
                Err(error) => return Err(format!("it cannot be closed: {error}")),
            },
        }
        let is_synced = life.sync != SyncMode::None;
        for (producer, sent) in sent.iter().enumerate() {
            let entries: Result<Vec<Entry>, String> = sent
                .iter()
                .map(|sent| sent.entry(self.lives, is_synced))
                .collect();
            self.ledger.add(producer, entries?);
        }
        if is_closed {
            self.ledger.close();
        }
        self.is_from_device = false;
        self.is_damage_excused |= !is_synced && !is_closed;
        if life.ending != Ending::Killed {
            self.power_failed();
        }
        Ok(())
    }

    fn power_failed(&mut self) {
        self.disk = self.disk.reboot();
        self.ledger.lose_power();
        self.is_from_device = true;
    }

    /// Reads everything back and compares it with the ledger. Returns why not all could be read, if
    /// something seems to follow.
    fn check(&mut self) -> Result<Option<String>, String> {
        let found = read_back(&self.disk).map_err(|error| error.to_string())?;
        let is_retained = self.case.retention.is_bounded();
        let (is_from_device, is_orderly) = (self.is_from_device, self.is_orderly);
        self.ledger
            .check(&found, is_from_device, is_orderly, is_retained)?;
        Ok(found.end)
    }
}
