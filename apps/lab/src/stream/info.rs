//! `freeboard stream info`: what a stream is, without reading all of it.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use freeboard::stream::{
    ReadFrom,
    format::{ALIGNMENT, SegmentHeader, segment_name, segment_number},
    storage::{Access, Disk, Storage},
    stream_header,
};
use serde::Serialize;

use super::{KeyArgs, StreamArgs, Unchecked, cat::open, line};
use crate::{
    console,
    figures::{count, counted, size},
};

/// Knobs of `freeboard stream info`.
#[derive(Debug, Clone, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Serialize)]
struct Info {
    path: String,
    stream: String,
    version: u16,
    seal: &'static str,
    seal_unit: &'static str,
    segments: usize,
    recycled: usize,
    bytes: u64,
    epoch: u64,
    first_record: u64,
    last_record: u64,
    created: String,
    /// What crashes have cut off and what is kept of it.
    broken_files: usize,
    broken_bytes: u64,
}

pub(super) fn info(args: &InfoArgs) -> Result<ExitCode> {
    let info = look(args)?;
    let text = if args.stream.json {
        serde_json::to_string_pretty(&info)? + "\n"
    } else {
        words(&info)
    };
    console::write_stdout(&text).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn look(args: &InfoArgs) -> Result<Info> {
    let path = &args.stream.path;
    let unchecked =
        |error: &dyn std::fmt::Display| Unchecked(format!("{}: {error}", path.display()));
    let disk = Disk::open_stream(path).map_err(|error| unchecked(&error))?;
    let names = disk.list().map_err(|error| unchecked(&error))?;
    let length = |name: &str| -> std::io::Result<u64> { disk.open(name, Access::Read)?.bytes() };
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    let (mut headers, mut bytes): (Vec<SegmentHeader>, u64) = (Vec::new(), 0);
    for number in numbers {
        let name = segment_name(number);
        let mut page = vec![0; ALIGNMENT];
        let file = disk
            .open(&name, Access::Read)
            .map_err(|error| unchecked(&error))?;
        let read = file
            .read_at(&mut page, 0)
            .map_err(|error| unchecked(&error))?;
        bytes += file.bytes().map_err(|error| unchecked(&error))?;
        headers.extend(SegmentHeader::decode(&page[..read]).ok());
    }
    let key = args.key.key(path)?;
    let identity = stream_header(&disk, key.as_ref()).map_err(|error| unchecked(&error))?;
    headers.retain(|header| header.stream == identity.stream);
    let (Some(first), Some(last)) = (headers.first(), headers.last()) else {
        return Err(unchecked(&"there is no stream").into());
    };
    let end = open(&args.stream, &args.key, ReadFrom::Tail)?.next_sequence();
    let broken = names.iter().filter(|name| name.ends_with(".broken"));
    let broken: Vec<u64> = broken.filter_map(|name| length(name).ok()).collect();
    Ok(Info {
        path: path.display().to_string(),
        stream: first.stream.to_string(),
        version: freeboard::stream::format::VERSION,
        seal: first.algorithm.name(),
        seal_unit: first.unit.name(),
        segments: headers.len(),
        recycled: headers.iter().filter(|header| header.is_recycled).count(),
        bytes,
        epoch: last.epoch,
        first_record: first.first_record,
        last_record: end - 1,
        created: line::time(first.created_ns),
        broken_files: broken.len(),
        broken_bytes: broken.iter().sum(),
    })
}

/// How it is sealed.
fn sealed(seal: &str, unit: &str) -> String {
    if seal == "none" {
        seal.to_owned()
    } else {
        format!("{seal} by {unit}")
    }
}

fn words(info: &Info) -> String {
    let mut text = format!(
        "stream      {}\nformat      version {}\nseal        {}\nrecords     {} to {} ({})\n\
         segments    {}, {} of them recycled, {}\nepoch       {}\noldest      {}\n",
        info.stream,
        info.version,
        sealed(info.seal, info.seal_unit),
        info.first_record,
        info.last_record,
        count((info.last_record + 1).saturating_sub(info.first_record)),
        info.segments,
        info.recycled,
        size(info.bytes),
        info.epoch,
        info.created,
    );
    if info.broken_files > 0 {
        text += &format!(
            "set aside   {}, {}: what stood behind the last whole record when it was opened\n",
            counted(info.broken_files as u64, "file"),
            size(info.broken_bytes)
        );
    }
    text
}
