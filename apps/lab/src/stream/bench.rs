//! `freeboard stream bench`: how fast streams can be written here.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;

use super::{KeyArgs, SealArgs};
use crate::{
    interrupt::Interrupt,
    scene,
    streams::{MESSAGES_DEFAULT, MESSAGES_MAX, Sizes, StreamsArgs, WRITERS_MAX},
};

/// Knobs of `freeboard stream bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// Write below this directory; what is written is removed afterwards
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    key: KeyArgs,

    /// Bytes of a message, or a range as 64..8192
    #[arg(long, value_name = "BYTES", default_value = "128")]
    size: Sizes,

    /// Messages, of all writers together
    #[arg(long, value_name = "N", default_value_t = MESSAGES_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..=MESSAGES_MAX))]
    messages: u64,

    /// Streams side by side, each with a thread of its own
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=WRITERS_MAX))]
    writers: u32,
}

/// Runs one run of the scene in a fresh directory below the given one, which is removed afterwards.
pub(super) fn bench(args: &BenchArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let run = StreamsArgs::single(
        &args.path,
        args.json,
        args.seal.clone(),
        args.key.clone(),
        (args.size, args.messages, args.writers),
    );
    scene::show(&run, interrupt)
}
