//! `freeboard stream tail`: the last records, and those that come.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use freeboard::stream::ReadFrom;

use super::{
    KeyArgs, StreamArgs,
    cat::{Output, open, torn},
    line,
};
use crate::interrupt::Interrupt;

/// How long it waits for a record before it checks for an interrupt.
const WAIT: Duration = Duration::from_millis(200);

/// Knobs of `freeboard stream tail`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    key: KeyArgs,

    /// Print the records that come, until Ctrl-C
    #[arg(short, long)]
    follow: bool,

    /// How many of the last records to print first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    records: u64,
}

pub(super) fn tail(args: &TailArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let from = match args.records {
        0 => ReadFrom::Tail,
        records => ReadFrom::Last(records),
    };
    let mut reader = open(&args.stream, &args.key, from)?;
    let stop = reader.stop_handle();
    let _listening = interrupt.listen(move || stop.stop());
    let mut out = Output::default();
    loop {
        let failed = loop {
            // Who follows has what lies behind each end looked at less often.
            let next = if args.follow {
                reader.wait_next(Duration::ZERO)
            } else {
                reader.next_ref()
            };
            match next {
                Ok(Some(record)) => line::write(record, args.stream.json, &mut out.piece),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            if !out.is_wanted()? {
                return Ok(ExitCode::SUCCESS);
            }
        };
        out.flush()?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if !args.follow
            && let Some(torn) = torn(&args.stream.path, &mut reader)?
        {
            return Err(torn);
        }
        if !out.is_wanted()? || !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        if interrupt.has_come() {
            return Ok(interrupt.exit_code());
        }
        if let Some(record) = reader.wait_next(WAIT)? {
            line::write(record, args.stream.json, &mut out.piece);
        }
    }
}
