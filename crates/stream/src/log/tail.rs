//! Cutting off what a crash left behind, and keeping it aside.

use std::io;

use crate::{
    format::{ALIGNMENT, segment_name},
    storage::{Access, Storage},
};

const PIECE_BYTES: usize = 1 << 20;

/// The name under which what was cut off at `offset` is kept.
pub(super) fn broken_name(segment: u64, offset: u64) -> String {
    format!("{}.{offset}.broken", segment_name(segment))
}

/// Keeps a whole segment aside.
pub(super) fn set_aside(storage: &dyn Storage, segment: u64) -> io::Result<()> {
    storage.rename(&segment_name(segment), &broken_name(segment, 0))
}

/// Cuts a segment at `offset`; what lies between there and `end`, but for zeros at its end, is kept
/// aside first. Both are durable when it returns, but for the kept file's name.
pub(super) fn cut(storage: &dyn Storage, segment: u64, offset: u64, end: u64) -> io::Result<()> {
    let file = storage.open(&segment_name(segment), Access::Cached)?;
    let end = end.min(file.bytes()?);
    let kept = broken_name(segment, offset);
    match storage.remove(&kept) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
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
                copy = Some(storage.create(&kept, 0, Access::Cached)?);
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
    }
    file.resize(offset.max(ALIGNMENT as u64))?;
    file.sync()
}
