//! Everything is read again, and compared with what was written.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use anyhow::{Context, Result, bail};
use freeboard::stream::{MasterKey, ReaderOptions, VerifyOptions, storage::Disk, verify};

use super::{
    message::{NUMBER_BYTES, Sizes},
    order::{Found, OrderCheck},
};
use crate::{console::Console, figures::mebibytes};

/// Reads a writer's stream, then checks every byte of its files.
pub(super) fn stream(
    path: &Path,
    mut check: OrderCheck,
    key: Option<&MasterKey>,
    console: &Console,
) -> Result<Found> {
    let mut reader = ReaderOptions::new().open(path)?;
    let mut records = 0;
    while let Some(record) = reader.next_ref()? {
        records += 1;
        if record.sequence != records {
            bail!("record {} came as the {records}th", record.sequence);
        }
        check.read(record.payload);
    }
    if records == 0 {
        // No file was begun, and there is nothing to verify.
        return Ok(check.end());
    }
    let mut is_started = false;
    let mut progress = |progress: freeboard::stream::Progress| {
        if !is_started {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            console.start_bar(&format!("verify {name}"), progress.bytes_total);
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
    Ok(check.end())
}

/// Reads a file that has no framing. Only the numbers tell where a message ends: behind a piece that is no message nothing
/// can be found.
pub(super) fn plain_file(path: &Path, sizes: Sizes, mut check: OrderCheck) -> Result<Found> {
    let file = File::open(path).context("cannot read the file again")?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut message = vec![0; sizes.max];
    loop {
        let (number, _) = message
            .split_first_chunk_mut::<NUMBER_BYTES>()
            .context("a message without a number")?;
        if read(&mut file, number)? == 0 {
            break;
        }
        let Some(size) = check.size(*number) else {
            check.read_foreign();
            break;
        };
        if read(&mut file, &mut message[NUMBER_BYTES..size])? < size - NUMBER_BYTES {
            check.read_foreign();
            break;
        }
        check.read(&message[..size]);
    }
    Ok(check.end())
}

/// Fills the buffer, or as much of it as is there.
fn read(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
