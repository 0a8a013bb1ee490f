//! `freeboard stream verify`: every byte checked.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use freeboard::stream::{
    Damage, Head, VerifyError, VerifyOptions, VerifyReport, verify as verify_stream,
};
use serde::Serialize;

use super::{KeyArgs, StreamArgs, Unchecked, open_storage};
use crate::{
    console::{self, Console},
    figures::{count, counted, mebibytes, size},
};

/// Knobs of `freeboard stream verify`.
#[derive(Debug, Clone, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    key: KeyArgs,

    /// A head that was kept elsewhere, which the stream must have: SEQUENCE:TAG
    #[arg(long, value_name = "SEQ:TAG")]
    expect_head: Option<Head>,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    path: String,
    whole: bool,
    stream: String,
    seal: &'static str,
    seal_unit: &'static str,
    tags_checked: bool,
    /// Whether somebody wrote to the stream meanwhile.
    live: bool,
    segments: u64,
    chunks: u64,
    records: u64,
    bytes: u64,
    first_record: u64,
    last_record: u64,
    epoch: u64,
    head: Option<String>,
    truncations: Vec<String>,
    damage_count: u64,
    damages: Vec<DamageLine>,
}

#[derive(Debug, Serialize)]
struct DamageLine {
    kind: &'static str,
    segment: u64,
    offset: u64,
    first_record: Option<u64>,
    last_record: Option<u64>,
    detail: String,
}

impl DamageLine {
    fn of(damage: &Damage) -> Self {
        Self {
            kind: damage.kind.name(),
            segment: damage.segment,
            offset: damage.offset,
            first_record: damage.records.map(|(first, _)| first),
            last_record: damage.records.map(|(_, last)| last),
            detail: damage.detail.clone(),
        }
    }
}

/// Checks a stream, with a bar on a terminal.
pub(super) fn check(
    stream: &StreamArgs,
    key: &KeyArgs,
    expect_head: Option<Head>,
) -> Result<VerifyReport> {
    let path = &stream.path;
    let key = key.key(path)?;
    let unchecked = |error: String| Unchecked(format!("{}: {error}", path.display()));
    let (storage, head) = open_storage(path).map_err(unchecked)?;
    let options = VerifyOptions {
        expect_head: expect_head.or(head),
        ..VerifyOptions::default()
    };
    let console = Console::new(true);
    let mut is_started = false;
    let report = verify_stream(storage.as_ref(), key.as_ref(), &options, &mut |progress| {
        if !is_started {
            console.start_bar("verify", progress.bytes_total);
            is_started = true;
        }
        console.move_bar(progress.bytes_done, mebibytes(progress.bytes_done));
    });
    console.end_bars();
    match report {
        // Nothing of what there must be.
        Err(error @ VerifyError::NoStream) if expect_head.is_some() => {
            Err(anyhow!("{}: truncated: {error}", path.display()))
        }
        report => report.map_err(|error| unchecked(error.to_string()).into()),
    }
}

pub(super) fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let report = check(&args.stream, &args.key, args.expect_head)?;
    let text = if args.stream.json {
        serde_json::to_string_pretty(&record(&args.stream, &report))? + "\n"
    } else {
        words(&report)
    };
    console::write_stdout(&text).context("cannot write to standard output")?;
    Ok(exit_code(&report))
}

pub(super) fn exit_code(report: &VerifyReport) -> ExitCode {
    if report.is_whole() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn record(stream: &StreamArgs, report: &VerifyReport) -> Report {
    Report {
        path: stream.path.display().to_string(),
        whole: report.is_whole(),
        stream: report.stream.to_string(),
        seal: report.algorithm.name(),
        seal_unit: report.unit.name(),
        tags_checked: report.tags_checked,
        live: report.is_live,
        segments: report.segments,
        chunks: report.chunks,
        records: report.records,
        bytes: report.bytes,
        first_record: report.first_record,
        last_record: report.last_record,
        epoch: report.epoch,
        head: report.head.map(|head| head.to_string()),
        truncations: report.truncations.iter().map(ToString::to_string).collect(),
        damage_count: report.damage_count,
        damages: report.damages.iter().map(DamageLine::of).collect(),
    }
}

fn words(report: &VerifyReport) -> String {
    let mut text = String::new();
    for damage in &report.damages {
        text += &format!("{damage}\n");
    }
    for truncated in &report.truncations {
        text += &format!("{truncated}\n");
    }
    let unlisted = report.damage_count - report.damages.len() as u64;
    if unlisted > 0 {
        text += &format!("... and {} more\n", count(unlisted));
    }
    text += &format!(
        "{}: {}, {} to {}, in {} of {}, {}; {}{}\n",
        if report.is_whole() {
            "whole"
        } else {
            "DAMAGED"
        },
        counted(report.records, "record"),
        report.first_record,
        report.last_record,
        counted(report.chunks, "chunk"),
        counted(report.segments, "segment"),
        size(report.bytes),
        if report.algorithm.is_sealed() {
            format!("sealed with {} by {}", report.algorithm, report.unit)
        } else {
            "not sealed".to_owned()
        },
        if report.algorithm.is_sealed() && !report.tags_checked {
            ", tags not checked (no key)"
        } else {
            ""
        }
    );
    if report.first_record > 1 && report.is_whole() {
        text += &format!(
            "it begins with record {}: retention has let go those before it\n",
            report.first_record
        );
    }
    if report.is_live {
        text += "somebody writes to the stream: its end moves\n";
    }
    if let Some(head) = report.head {
        text += &format!("head {head}\n");
    }
    text
}
