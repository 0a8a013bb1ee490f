//! The stream tools: `freeboard stream append | cat | tail | info | head | verify | salvage | bench`, and with the
//! feature `archive` also `archive | restore`.
//!
//! Each does one thing with a stream's directory. What is meant for programs goes to standard output,
//! what is meant for people, where the two differ, to standard error.

mod append;
#[cfg(feature = "archive")]
mod archive;
mod bench;
mod cat;
mod head;
mod info;
mod key;
mod line;
#[cfg(feature = "archive")]
mod restore;
mod salvage;
mod seal;
mod tail;
mod verify;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Result;
use clap::{Args, Subcommand};
use freeboard::stream::{
    Head,
    storage::{Disk, Storage},
};

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

#[cfg(feature = "archive")]
const ARCHIVE_EXAMPLES: &str = "\
Examples:
  freeboard stream archive LOG --to s3://bucket/log --key-file ~/log.key
      sends what is not there yet, with the end of the stream; run it again at any time
  freeboard stream archive LOG --to file:///mnt/backup/log --follow --rate 20M
      sends each segment when it is finished, and the end at Ctrl-C; at most 20 MB/s
  freeboard stream archive LOG --to gs://bucket/log --keep-age 2592000 --key-file ~/log.key
      keeps 30 days in the archive
Then: freeboard stream verify s3://bucket/log --key-file ~/log.key

Credentials come from the environment or from the machine's role: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT and AWS_ALLOW_HTTP (for other S3 servers), GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME,
AZURE_STORAGE_ACCOUNT_KEY. A run that was killed is continued by the next.

Exit codes: 0 all is archived; 1 something is not, or a segment is damaged; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

#[cfg(feature = "archive")]
const RESTORE_EXAMPLES: &str = "\
Examples:
  freeboard stream restore s3://bucket/log LOG --key-file ~/log.key
  freeboard stream restore s3://bucket/log LOG --to-record 1000000
      the stream as it was when record 1,000,000 was the last, or up to a batch less
  freeboard stream restore s3://bucket/log LOG --to-time 2026-11-21T10:00:00Z

The files are fetched into LOG.restoring and checked there. LOG exists only if they are whole. A restore that was
interrupted continues.

Exit codes: 0 restored and whole; 1 not restored; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

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
    /// Sends a stream to an archive: S3, Google Cloud Storage, Azure or another directory
    #[cfg(feature = "archive")]
    #[command(after_help = ARCHIVE_EXAMPLES)]
    Archive(archive::ArchiveArgs),
    /// Copies a stream from an archive into a directory, and checks it
    #[cfg(feature = "archive")]
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(restore::RestoreArgs),
    /// Needs a binary that was built with --features archive
    #[cfg(not(feature = "archive"))]
    Archive(NoArchive),
    /// Needs a binary that was built with --features archive
    #[cfg(not(feature = "archive"))]
    Restore(NoArchive),
    /// Copies what is whole into a new stream
    #[command(after_help = SALVAGE_EXAMPLES)]
    Salvage(salvage::SalvageArgs),
    /// Measures how fast streams can be written in a directory
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(bench::BenchArgs),
}

#[cfg(not(feature = "archive"))]
const NO_ARCHIVE: &str = "this binary was built without archive: build it with --features archive";

/// Takes any arguments, so that the answer is that this binary has no archives.
#[cfg(not(feature = "archive"))]
#[derive(Debug, Clone, Args)]
pub(crate) struct NoArchive {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _arguments: Vec<std::ffi::OsString>,
}

/// Where a stream is, and how its tools speak.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamArgs {
    /// The stream's directory; for verify, head and cat also an archive, such as s3://bucket/log
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The stream in a directory, or in an archive, if the path is an address; and the archive's head.
pub(crate) fn open_storage(path: &Path) -> Result<(Arc<dyn Storage>, Option<Head>), String> {
    if let Some(url) = path.to_str().filter(|path| path.contains("://")) {
        return open_archive(url);
    }
    let disk = Disk::open_stream(path).map_err(|error| error.to_string())?;
    Ok((Arc::new(disk), None))
}

#[cfg(feature = "archive")]
fn open_archive(url: &str) -> Result<(Arc<dyn Storage>, Option<Head>), String> {
    let open = || {
        let archive = freeboard::stream::archive::ArchiveOptions::new().open(url)?;
        let head = archive.head()?;
        Ok((Arc::new(archive) as Arc<dyn Storage>, head))
    };
    open().map_err(|error: freeboard::stream::archive::ArchiveError| error.to_string())
}

#[cfg(not(feature = "archive"))]
fn open_archive(_url: &str) -> Result<(Arc<dyn Storage>, Option<Head>), String> {
    Err(NO_ARCHIVE.to_owned())
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
        #[cfg(feature = "archive")]
        Tool::Archive(args) => archive::archive(args, interrupt),
        #[cfg(feature = "archive")]
        Tool::Restore(args) => restore::restore(args, interrupt),
        #[cfg(not(feature = "archive"))]
        Tool::Archive(_) | Tool::Restore(_) => Err(Unchecked(NO_ARCHIVE.to_owned()).into()),
        Tool::Salvage(args) => salvage::salvage(args),
        Tool::Bench(args) => bench::bench(args, interrupt),
    }
}
