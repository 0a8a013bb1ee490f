//! The stream tools: `freeboard stream append | cat | tail | info | head | verify | salvage | bench`.
//!
//! Each does one thing with a stream's directory. What is meant for programs goes to standard output,
//! what is meant for people, where the two differ, to standard error.

mod append;
mod bench;
mod cat;
mod head;
mod info;
mod key;
mod line;
mod salvage;
mod seal;
mod tail;
mod verify;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::interrupt::Interrupt;
pub(crate) use key::KeyArgs;
pub(crate) use seal::SealArgs;

/// A stream that could not be checked, or not be read: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unchecked(pub(crate) String);

const APPEND_EXAMPLES: &str = "\
Examples:
  journalctl -f | freeboard stream append /var/log/journal-copy
      each line is on its way to the disk within some 20 ms
  freeboard stream append LOG --key-file ~/log.key < lines
      sealed with BLAKE3 by batch; make a key with: (umask 077; head -c 32 /dev/urandom > ~/log.key)
  freeboard stream append LOG --keep-bytes 1000000000 --sync interval:100
      keeps at most 1 GB, and syncs every 100 ms

Exit codes: 0 all lines are durable; 1 one is not, or the report could not be printed; 2 bad usage or wrong key;
130 Ctrl-C, 143 SIGTERM, all whole lines durable.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  freeboard stream verify LOG --key-file ~/log.key
  freeboard stream verify LOG --expect-head \"$(cat kept.head)\"
      also finds that the end was cut off
Without the key of a sealed stream only checksums and the chain are checked, and the exit code of a whole stream is 0.
  freeboard stream verify LOG --json | jq '.damages[]'

Exit codes: 0 whole; 1 damaged; 2 could not check (no stream, wrong key, unreadable).";

const CAT_EXAMPLES: &str = "\
Examples:
  freeboard stream cat LOG
  freeboard stream cat LOG --from 1000
  freeboard stream cat LOG --from 2026-11-21T10:00:00Z --json | jq -r .text
  freeboard stream cat LOG --backwards | head

Records behind a damaged last segment header are not printed, because a crash can leave the same bytes: check with
`stream verify`.

Exit codes: 0 done; 1 damage was met, or a segment could not be read; 2 could not open the stream.";

const TAIL_EXAMPLES: &str = "\
Examples:
  freeboard stream tail LOG
  freeboard stream tail -f LOG
      also what is being written by another process, until Ctrl-C
  freeboard stream tail -f -n 0 LOG --json | jq -r .text

Exit codes: 0 done; 1 damage was met; 2 could not read; 130 Ctrl-C, 143 SIGTERM.";

const INFO_EXAMPLES: &str = "\
Examples:
  freeboard stream info LOG
  freeboard stream info LOG --json | jq .last_record

Exit codes: 0 done; 2 could not read (no stream, wrong key, unreadable).";

const HEAD_EXAMPLES: &str = "\
Examples:
  freeboard stream head LOG --key-file ~/log.key > kept.head
      keep it where the stream's writer cannot write; `verify --expect-head` takes it

Exit codes: 0 whole; 1 damaged, no head is printed; 2 could not check (no stream, no records, wrong key, unreadable).";

const SALVAGE_EXAMPLES: &str = "\
Examples:
  freeboard stream salvage LOG WHOLE --key-file ~/log.key
      what cannot be checked with the key is left out, and the copy is sealed anew
  freeboard stream salvage LOG WHOLE --key-file ~/log.key --doubtful

The copy gives records new numbers and the time of the copying.
Without a key, records are copied in the order of the segment files. If somebody has swapped files, the copy's records
are out of order.

Exit codes: 0 all records copied; 1 some were not, or the copy's end could not be written; 2 could not read the stream
(no stream, wrong key, unreadable) or write the copy, or bad usage.";

const BENCH_EXAMPLES: &str = "\
Examples:
  freeboard stream bench /var/tmp
  freeboard stream bench /var/tmp --size 4096 --seal blake3 --json";

/// What can be done with a stream.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Appends standard input to a stream, line by line
    #[command(after_help = APPEND_EXAMPLES)]
    Append(append::AppendArgs),
    /// Prints a stream's records, a line each
    #[command(after_help = CAT_EXAMPLES)]
    Cat(cat::CatArgs),
    /// Prints the last records, and with -f those that come
    #[command(after_help = TAIL_EXAMPLES)]
    Tail(tail::TailArgs),
    /// Says what a stream is: seal, segments, records, sizes
    #[command(after_help = INFO_EXAMPLES)]
    Info(info::InfoArgs),
    /// Checks a stream and prints its head, to be kept elsewhere
    #[command(after_help = HEAD_EXAMPLES)]
    Head(head::HeadArgs),
    /// Checks every byte, and names what is wrong where
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Copies what is whole into a new stream
    #[command(after_help = SALVAGE_EXAMPLES)]
    Salvage(salvage::SalvageArgs),
    /// Measures how fast streams can be written in a directory
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(bench::BenchArgs),
}

/// Where a stream is, and how its tools speak.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamArgs {
    /// The stream's directory
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Does it.
pub(crate) fn run(tool: &Tool, interrupt: &Interrupt) -> Result<ExitCode> {
    match tool {
        Tool::Append(args) => append::append(args, interrupt),
        Tool::Cat(args) => cat::cat(args),
        Tool::Tail(args) => tail::tail(args, interrupt),
        Tool::Info(args) => info::info(args),
        Tool::Head(args) => head::head(args),
        Tool::Verify(args) => verify::verify(args),
        Tool::Salvage(args) => salvage::salvage(args),
        Tool::Bench(args) => bench::bench(args, interrupt),
    }
}
