//! One run of the scene, fully decided.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::native::NativeCall;
use crate::figures::{count, counted, seconds};

/// Where the processes are born, and released from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// In a handler: all on one worker, which the others have to take them from
    One,
    /// Outside: through the queue that all workers share
    Spread,
}

/// What a native call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NativeKind {
    /// It computes (MD5) and does not yield
    Cpu,
    /// It blocks its thread
    Sleep,
}

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// Wake-ups of sleeping workers are lost
    DropWakes,
}

/// When a process gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum YieldKind {
    /// After each native call
    Each,
    /// Not before its last native call: the rule that a native call costs one reduction
    Never,
}

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
    /// The workers that stay on-line: from the middle of the run on, or after the iterations.
    pub(crate) online: Option<usize>,
    /// Runs before the one that is measured.
    pub(crate) iterations: u32,
    /// After each of these runs.
    pub(crate) pause: Duration,
    pub(crate) place: Place,
    pub(crate) yields: YieldKind,
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

    /// The run in a few words.
    pub(crate) fn title(&self) -> String {
        let kind = match (self.fault, self.native, self.yields) {
            (Some(_), _, _) => "lost wake-ups",
            (None, NativeKind::Sleep, _) => "blocking calls",
            (None, NativeKind::Cpu, YieldKind::Each) => "yield after each call",
            (None, NativeKind::Cpu, YieldKind::Never) => "never yield",
        };
        let before = match self.iterations {
            0 => String::new(),
            iterations => format!(
                " after {} and pauses",
                counted(u64::from(iterations), "run")
            ),
        };
        format!("{kind}, {} x {}{before}", self.procs, self.repeats)
    }

    pub(crate) fn parameters(&self) -> String {
        let place = match self.place {
            Place::One => "all born on one worker",
            Place::Spread => "spread over the workers",
        };
        let fault = match self.fault {
            Some(FaultKind::DropWakes) => "; wake-ups of workers are lost on purpose",
            None => "",
        };
        let yields = match self.yields {
            YieldKind::Each => "",
            YieldKind::Never => ", all in one run",
        };
        let before = match self.iterations {
            0 => String::new(),
            iterations => format!(
                "; {} before, each followed by {} of pause",
                counted(u64::from(iterations), "such run"),
                seconds(self.pause.as_secs_f64())
            ),
        };
        format!(
            "{} processes, {place}, {} x ({}, {} loops) each{yields}, on {} workers{fault}{before}",
            count(u64::from(self.procs)),
            count(u64::from(self.repeats)),
            self.native_text(),
            count(self.spin),
            self.schedulers
        )
    }

    /// Whether the run is a sound one that computes, without runs before it.
    pub(crate) fn is_plain(&self) -> bool {
        self.fault.is_none() && self.native == NativeKind::Cpu && self.iterations == 0
    }
}
