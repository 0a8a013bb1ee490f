//! Free space: how large the segments of a stream are, and what `/metrics` and `/healthz` say of the disks.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use freeboard::{
    meter::clock,
    platform::{sync::Mutex, thread},
};

use crate::sink::lock;

/// How often free space is read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// An older reading says nothing: the mount hangs, or the directory was removed.
const READING_AGE_MAX: Duration = Duration::from_secs(10);

/// The size of a segment that is not set, in bytes.
const SEGMENT_BYTES: u64 = 256 << 20;

/// On a small disk it is not smaller than this, in bytes.
const SMALL_SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// Free space where a directory is, in bytes; `None` if it cannot be found out.
fn free_bytes(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The size of the segments of a stream in this directory, which may be missing, if they must be small: where the free space
/// is less than four of the usual size, up to a quarter of it. With the free space.
pub(crate) fn small_segments(directory: &Path) -> Option<(u64, u64)> {
    let is_there = |path: &&Path| !path.as_os_str().is_empty() && path.exists();
    let there = directory.ancestors().find(is_there);
    let free = free_bytes(there.unwrap_or(Path::new(".")))?;
    Some((segment_of_small_disk(free)?, free))
}

fn segment_of_small_disk(free_bytes: u64) -> Option<u64> {
    let quarter = (free_bytes / 4).max(SMALL_SEGMENT_BYTES_MIN);
    // The largest power of two up to a quarter.
    let bytes = 1 << quarter.ilog2();
    (bytes < SEGMENT_BYTES).then_some(bytes)
}

/// The free space of a directory when it was last read.
#[derive(Clone, Debug)]
struct Reading {
    directory: PathBuf,
    free_bytes: u64,
    read_at: Instant,
}

impl Reading {
    fn free_bytes_at(&self, now: Instant) -> Option<u64> {
        let is_recent = now.saturating_duration_since(self.read_at) <= READING_AGE_MAX;
        is_recent.then_some(self.free_bytes)
    }
}

/// Reads the free space of directories until it is dropped. It has a thread of its own, because a mount that hangs would
/// block a worker.
pub(crate) struct DiskWatch(Arc<Mutex<Vec<Reading>>>);

impl DiskWatch {
    /// The directories exist.
    pub(crate) fn start(mut directories: Vec<PathBuf>) -> Self {
        directories.sort();
        directories.dedup();
        let first = directories.iter().filter_map(|directory| {
            Some(Reading {
                directory: directory.clone(),
                free_bytes: free_bytes(directory)?,
                read_at: clock::now(),
            })
        });
        let readings = Arc::new(Mutex::new(first.collect::<Vec<_>>()));
        let watched = Arc::downgrade(&readings);
        let watch = move || {
            while let Some(readings) = watched.upgrade() {
                let count = lock(&readings).len();
                for at in 0..count {
                    let directory = lock(&readings)[at].directory.clone();
                    // It may hang, so not under the lock.
                    if let Some(free_bytes) = free_bytes(&directory) {
                        let reading = &mut lock(&readings)[at];
                        (reading.free_bytes, reading.read_at) = (free_bytes, clock::now());
                    }
                }
                drop(readings);
                thread::park_timeout(READ_EVERY);
            }
        };
        let thread = thread::Builder::new().name("logd.disks".to_owned());
        if let Err(error) = thread.spawn(watch) {
            tracing::warn!("the free space of disks is not watched: {error}");
        }
        Self(readings)
    }

    /// Directories and their free space; `None`: it was not read for 10 s.
    pub(crate) fn free_bytes(&self) -> Vec<(String, Option<u64>)> {
        let now = clock::now();
        let readings = lock(&self.0);
        let named = readings.iter().map(|reading| {
            let name = reading.directory.display().to_string();
            (name, reading.free_bytes_at(now))
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_segments_fit_on_a_small_disk() {
        let [kib, mib, gib] = [10, 20, 30].map(|shift| 1_u64 << shift);
        for (free, expected) in [
            (0, Some(mib)),
            (600 * kib, Some(mib)),
            (16 * mib, Some(4 * mib)),
            (gib - 1, Some(128 * mib)),
            (gib, None),
            (u64::MAX, None),
        ] {
            assert_eq!(segment_of_small_disk(free), expected, "{free} free");
        }
    }

    #[test]
    fn an_old_reading_is_unknown() {
        let reading = Reading {
            directory: PathBuf::new(),
            free_bytes: 7,
            read_at: clock::now(),
        };
        let after = |time| reading.free_bytes_at(reading.read_at + time);
        assert_eq!(after(READING_AGE_MAX), Some(7));
        assert_eq!(after(READING_AGE_MAX + Duration::from_millis(1)), None);
    }
}
