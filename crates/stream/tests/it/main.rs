//! Tests of streams through the public interface.
#![cfg(not(loom))]

#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "archive")]
mod archive_s3;
mod attacks;
mod background;
mod batches;
mod consumers;
mod crash;
mod crash_each_call;
mod crash_seeds;
mod epochs;
#[cfg(feature = "archive")]
mod fenced;
mod fixtures;
mod format;
mod prometheus;
mod reader;
mod reader_damage;
mod recovery;
mod retention;
mod simulated_disk;
mod simulation;
mod snapshots;
#[cfg(feature = "actor")]
mod stream_actor;
#[path = "../support/mod.rs"]
mod support;
mod truncation;
mod user_code;
mod verify_bits;
mod verify_tampering;
mod writer;

use freeboard_stream::{StreamOptions, StreamWriter};

/// Opens a new stream in a directory of its own.
fn open(options: StreamOptions) -> (tempfile::TempDir, StreamWriter) {
    let directory = tempfile::tempdir().unwrap();
    let stream = options.open(directory.path()).unwrap();
    (directory, stream)
}
