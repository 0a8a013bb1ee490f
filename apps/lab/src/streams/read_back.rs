//! Everything is read again, and compared with what was written.

use std::path::Path;

use anyhow::{Result, bail};
use freeboard::stream::{MasterKey, ReaderOptions, VerifyOptions, storage::Disk, verify};

use super::{message::Message, plan::Plan};
use crate::{console::Console, figures::mebibytes};

/// Reads a writer's stream and compares each message; then checks every byte of its files. Returns
/// the number of messages.
pub(super) fn read_back(
    path: &Path,
    number: u32,
    plan: &Plan,
    key: &MasterKey,
    console: &Console,
) -> Result<u64> {
    let mut reader = ReaderOptions::new().open(path)?;
    let mut message = Message::new(number, plan.size);
    let mut messages = 0;
    while let Some(record) = reader.next_ref()? {
        if record.sequence != messages + 1 {
            bail!("record {} came as the {}th", record.sequence, messages + 1);
        }
        if record.payload != message.nth(messages) {
            bail!("record {} has other bytes", record.sequence);
        }
        messages += 1;
    }
    if messages == 0 {
        // No file was begun, and there is nothing to verify.
        return Ok(0);
    }
    let key = plan.seal.is_sealed().then_some(key);
    let mut is_started = false;
    let mut progress = |progress: freeboard::stream::Progress| {
        if !is_started {
            console.start_bar(&format!("verify writer{number}"), progress.bytes_total);
            is_started = true;
        }
        console.move_bar(progress.bytes_done, mebibytes(progress.bytes_done));
    };
    let report = verify(
        &Disk::open(path)?,
        key,
        &VerifyOptions::default(),
        &mut progress,
    );
    console.end_bars();
    if let Some(damage) = report?.damages.first() {
        bail!("{damage}");
    }
    Ok(messages)
}
