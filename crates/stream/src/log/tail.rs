//! Cutting off what a crash left behind, and keeping it aside.

use std::io;

use crate::{
    format::{ALIGNMENT, segment_name},
    storage::{Access, Storage},
};

use super::segments::PREPARING;

const PIECE_BYTES: usize = 1 << 20;

/// A name that no file has, under which what was cut off at `offset` is kept: `….4096.broken`, then
/// `….4096.2.broken`. What was kept before stays.
fn broken_name(storage: &dyn Storage, segment: u64, offset: u64) -> io::Result<String> {
    let names = storage.list()?;
    let segment = segment_name(segment);
    let first = format!("{segment}.{offset}.broken");
    let later = (2_u64..).map(|count| format!("{segment}.{offset}.{count}.broken"));
    let is_unused = |name: &String| !names.contains(name);
    let name = std::iter::once(first).chain(later).find(is_unused);
    Ok(name.expect("there are more names than files"))
}

/// Keeps a whole segment aside, or a directory that has a segment's name.
pub(super) fn set_aside(storage: &dyn Storage, segment: u64) -> io::Result<()> {
    let kept = broken_name(storage, segment, 0)?;
    storage.rename(&segment_name(segment), &kept)
}

/// Cuts a segment at `offset`; what lies between there and `end`, but for zeros at its end, is kept
/// aside first. All of it is durable when it returns.
pub(super) fn cut(storage: &dyn Storage, segment: u64, offset: u64, end: u64) -> io::Result<()> {
    let file = storage.open(&segment_name(segment), Access::Cached)?;
    let end = end.min(file.bytes()?);
    let kept = broken_name(storage, segment, offset)?;
    // Under a name of its own until it is whole, which the next opening removes: a crash in between
    // leaves no half of it.
    let unfinished = format!("{kept}{PREPARING}");
    let mut copy = None;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = offset;
    let mut kept_bytes = 0;
    while at < end {
        let wanted = piece.len().min((end - at) as usize);
        let read = file.read_at(&mut piece[..wanted], at)?;
        if read == 0 {
            break;
        }
        if let Some(last) = piece[..read].iter().rposition(|byte| *byte != 0) {
            if copy.is_none() {
                // What an attempt that a crash ended may have left.
                let _ = storage.remove(&unfinished);
                copy = Some(storage.create(&unfinished, 0, Access::Cached)?);
            }
            let copy = copy.as_ref().expect("it was just made");
            copy.write_at(&[&piece[..=last]], at - offset)?;
            kept_bytes = at - offset + last as u64 + 1;
        }
        at += read as u64;
    }
    if let Some(copy) = copy {
        debug_assert!(kept_bytes <= copy.bytes()?);
        copy.sync()?;
        storage.rename(&unfinished, &kept)?;
        // Before the cut, or a crash may leave neither.
        storage.sync_directory()?;
    }
    file.resize(offset.max(ALIGNMENT as u64))?;
    file.sync()
}
