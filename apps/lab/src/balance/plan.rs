//! One run of the scene, fully decided.

use std::time::Duration;

use super::{
    knobs::{FaultKind, NativeKind, Place},
    native::NativeCall,
};
use crate::figures::count;

/// What the run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) procs: u32,
    /// Of each process.
    pub(crate) repeats: u32,
    /// That each native call computes over.
    pub(crate) bytes: usize,
    /// That each native call blocks, if it is of that kind.
    pub(crate) sleep: Duration,
    /// Empty iterations behind each native call.
    pub(crate) spin: u64,
    pub(crate) schedulers: usize,
    /// So many of them from the middle of the run on.
    pub(crate) online: Option<usize>,
    pub(crate) place: Place,
    pub(crate) native: NativeKind,
    pub(crate) fault: Option<FaultKind>,
    pub(crate) sample_every: Duration,
    pub(crate) interval: Duration,
}

impl Plan {
    /// Of all processes.
    pub(crate) fn repetitions(&self) -> u64 {
        u64::from(self.procs) * u64::from(self.repeats)
    }

    /// What each repetition calls.
    pub(crate) fn native_call(&self) -> NativeCall {
        match self.native {
            NativeKind::Cpu => NativeCall::md5(self.bytes),
            NativeKind::Sleep => NativeCall::Sleep(self.sleep),
        }
    }

    /// The native call in words.
    pub(crate) fn native_text(&self) -> String {
        match self.native {
            NativeKind::Cpu => format!("MD5 over {} bytes", count(self.bytes as u64)),
            NativeKind::Sleep => format!("a blocking call of {} ms", self.sleep.as_millis()),
        }
    }

    /// MBytes that so many calls went through; `None` if they do not compute.
    pub(crate) fn mebibytes(&self, calls: u64) -> Option<f64> {
        match self.native {
            NativeKind::Cpu => Some(calls as f64 * self.bytes as f64 / f64::from(1 << 20)),
            NativeKind::Sleep => None,
        }
    }
}
