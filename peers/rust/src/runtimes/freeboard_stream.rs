//! Freeboard's streams.

use std::time::Instant;

use anyhow::{Result, ensure};
use freeboard::stream::{
    MasterKey, Retention, StreamOptions, StreamWriter,
    format::{Algorithm, ChunkHeader, HeadsSum, SealUnit, StreamId, SyncKind, write_record},
    seal::{Ratchet, seal_chunk},
};

use crate::{
    cpu_time,
    outcome::Outcome,
    streams::{self, Bulk, Files, Mode, Seal, StreamWork},
};

const KEY: &[u8] = b"a key for measurements only";

/// What a recycled stream keeps, in bytes: two of its segments and the one that grows.
const KEPT_BYTES: u64 = 768 << 20;

pub fn run(work: StreamWork, count: u64) -> Result<Outcome> {
    match work {
        StreamWork::Bulk(plan) => bulk(plan, count),
        StreamWork::Commit(producers) => commit(producers, count),
        StreamWork::SealAlone => seal_alone(count),
    }
}

fn options(plan: Bulk) -> Result<StreamOptions> {
    let (algorithm, unit) = match plan.seal {
        Seal::None => (Algorithm::None, SealUnit::Batch),
        Seal::Blake3ByBatch => (Algorithm::Blake3, SealUnit::Batch),
        Seal::HmacSha256ByBatch => (Algorithm::HmacSha256, SealUnit::Batch),
        Seal::HmacSha256ByRecord => (Algorithm::HmacSha256, SealUnit::Record),
    };
    let mode = match plan.mode {
        Mode::None => "none",
        Mode::Interval => "interval:50",
        Mode::Durable => "batch",
    };
    let kept = (plan.files == Files::Recycled).then_some(KEPT_BYTES);
    Ok(StreamOptions::new()
        .seal(algorithm, unit)
        .key(MasterKey::new(KEY)?)
        .sync(mode.parse().map_err(anyhow::Error::msg)?)
        .retention(Retention {
            bytes: kept,
            ..Retention::default()
        })
        .shards(1))
}

fn append(stream: &StreamWriter, plan: Bulk, count: u64) -> Result<()> {
    let record = vec![7; plan.record_bytes];
    if plan.records_a_call == 1 {
        for _ in 0..count {
            let _ticket = stream.append(&record)?;
        }
    } else {
        let mut left = count as usize;
        while left > 0 {
            let call = left.min(plan.records_a_call);
            let _ticket = stream.append_many((0..call).map(|_| &record))?;
            left -= call;
        }
    }
    stream.flush()?;
    Ok(())
}

fn bulk(plan: Bulk, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let stream = options(plan)?.open(&path)?;
    if plan.files == Files::Recycled {
        // Warm-up: until retention has set files free, and they are written again.
        let bytes = plan.record_bytes as u64 + 8;
        append(&stream, plan, 2 * KEPT_BYTES / bytes)?;
    }
    let before = stream.snapshot();
    let (begun, cpu_s) = (Instant::now(), cpu_time::used().as_secs_f64());
    append(&stream, plan, count)?;
    let time = begun.elapsed();
    let cpu_s = cpu_time::used().as_secs_f64() - cpu_s;
    let after = stream.snapshot();
    ensure!(
        after.written - before.written == count,
        "not all was written"
    );
    let disk = (after.bytes_written - before.bytes_written) as f64 / 1e6;
    stream.close()?;
    Ok(streams::bulk_outcome(count, plan.record_bytes, time, cpu_s)
        .with_field("disk_mb_per_s", disk / time.as_secs_f64()))
}

fn commit(producers: usize, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let stream = StreamOptions::new().open(&path)?;
    streams::commits(producers, count, || {
        let stream = stream.clone();
        Ok(move |record: &[u8]| {
            stream.append(record)?.wait()?;
            Ok(())
        })
    })
}

/// Chunks of 8,192 records, sealed again and again.
fn seal_alone(count: u64) -> Result<Outcome> {
    const RECORDS: u32 = 8_192;
    let (algorithm, stream) = (Algorithm::HmacSha256, StreamId([3; 16]));
    let keys = Ratchet::at(&MasterKey::new(KEY)?, algorithm, stream, 1).keys();
    let (mut body, mut heads) = (Vec::new(), HeadsSum::default());
    for _ in 0..RECORDS {
        heads.add(
            write_record(&mut body, &[7; 128], algorithm.tag_bytes()),
            &[],
        );
    }
    let mut previous = [0; 64];
    let mut records = 0;
    let begun = Instant::now();
    while records < count {
        let mut header = ChunkHeader {
            algorithm,
            unit: SealUnit::Record,
            sync: SyncKind::Batch,
            stream,
            epoch: 1,
            sequence: 1,
            first_record: 1,
            count: RECORDS,
            body_bytes: body.len() as u32,
            durable: 0,
            time_ns: 1,
            heads_sum: HeadsSum::default(),
            previous,
            tag: [0; 64],
        };
        seal_chunk(Some(&keys), &mut header, &mut body, heads);
        previous = header.tag;
        records += u64::from(RECORDS);
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Outcome::measured(records, seconds).with_field("qps", records as f64 / seconds))
}
