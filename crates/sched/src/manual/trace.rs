//! The trace of a manual executor: the last steps, and a checksum of all.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use crate::label::RunLabel;

/// Steps that a trace keeps.
pub const TRACE_STEPS_MAX: usize = 4_096;

/// One step. Its text contains neither addresses nor numbers of the process, so equal runs have equal texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// Its number, from 1.
    pub step: u64,
    /// Virtual time since the start.
    pub time: Duration,
    /// The task's owner: its number, by first appearance, and its type. `None` for a timer.
    pub owner: Option<(u32, &'static str)>,
    /// The type of the last message that was handled; empty if there was none.
    pub message_type: &'static str,
}

impl fmt::Display for TraceStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:>6} {:>10?}  ", self.step, self.time)?;
        match self.owner {
            None => formatter.write_str("timer"),
            Some((number, owner)) => {
                write!(formatter, "{}#{number}", short(owner))?;
                if self.message_type.is_empty() {
                    return Ok(());
                }
                write!(formatter, " {}", short(self.message_type))
            }
        }
    }
}

/// The last part of a type's path, without type parameters.
fn short(type_name: &str) -> &str {
    let path = type_name.split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default()
}

#[derive(Default)]
pub(super) struct Trace {
    steps: VecDeque<TraceStep>,
    numbers: BTreeMap<u64, u32>,
    checksum: u64,
}

impl Trace {
    pub(super) fn number_of(&mut self, owner: u64) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry(owner).or_insert(next)
    }

    pub(super) fn note_timer(&mut self, step: u64, now_ns: u64) {
        self.push(step, now_ns, None, "");
    }

    pub(super) fn note_run(&mut self, step: u64, now_ns: u64, label: &RunLabel) {
        let Some((id, owner, message_type)) = label.names() else {
            return;
        };
        let number = self.number_of(id);
        self.push(step, now_ns, Some((number, owner)), message_type);
    }

    fn push(
        &mut self,
        step: u64,
        now_ns: u64,
        owner: Option<(u32, &'static str)>,
        message_type: &'static str,
    ) {
        let (number, owner_type) = owner.unwrap_or_default();
        for word in [step, now_ns, u64::from(number)] {
            self.mix(&word.to_le_bytes());
        }
        self.mix(owner_type.as_bytes());
        self.mix(message_type.as_bytes());
        if self.steps.len() == TRACE_STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(TraceStep {
            step,
            time: Duration::from_nanos(now_ns.saturating_sub(1)),
            owner,
            message_type,
        });
    }

    /// FNV-1a.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.checksum = (self.checksum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &TraceStep> {
        self.steps.iter()
    }

    pub(super) fn checksum(&self) -> u64 {
        self.checksum
    }
}
