//! The scene's knobs: what each one may be set to.

use clap::ValueEnum;
use serde::Serialize;

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
