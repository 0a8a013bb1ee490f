//! `freeboard stream head`: the end of a stream that was checked, in a line.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::{
    KeyArgs, StreamArgs, Unchecked,
    verify::{check, exit_code},
};
use crate::console;

/// Knobs of `freeboard stream head`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(super) fn head(args: &HeadArgs) -> Result<ExitCode> {
    let report = check(&args.stream, &args.key, None)?;
    let path = args.stream.path.display();
    let Some(head) = report.head else {
        return Err(Unchecked(format!("{path}: the stream has no records")).into());
    };
    if let Some(damage) = report.damages.first() {
        // A head of a damaged stream would vouch for the damage.
        anyhow::bail!("{path}: {damage}");
    }
    let text = if args.stream.json {
        json!({"head": head.to_string(), "sequence": head.sequence, "whole": report.is_whole()})
            .to_string()
    } else {
        head.to_string()
    };
    console::write_stdout(&(text + "\n")).context("cannot write to standard output")?;
    Ok(exit_code(&report))
}
