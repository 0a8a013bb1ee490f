//! A slower disk for one process: the kernel limits what a control group writes.
//!
//! Version 1 of control groups delays what the process writes itself: direct writes, and those of its syncs. It does not
//! delay pages that the kernel writes back later, so only works that sync each write are comparable.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Version 1's folder of the controller, and version 2's root.
const VERSION_1: &str = "/sys/fs/cgroup/blkio";
const VERSION_2: &str = "/sys/fs/cgroup";
/// Attempts to remove the group, whose processes may not have ended yet.
const REMOVALS_MAX: u32 = 200;

/// A control group. Dropping it removes it; its processes are killed before that.
pub struct DiskLimit {
    group: PathBuf,
}

impl DiskLimit {
    /// Limits writes to the disk of `folder`.
    pub fn new(folder: &Path, bytes_per_second: u64) -> Result<Self> {
        let disk = disk_of(folder)?;
        let version_1 = Path::new(VERSION_1);
        let (root, file, limit) = match version_1.is_dir() {
            true => (
                version_1,
                "blkio.throttle.write_bps_device",
                format!("{disk} {bytes_per_second}"),
            ),
            false => (
                Path::new(VERSION_2),
                "io.max",
                format!("{disk} wbps={bytes_per_second}"),
            ),
        };
        let group = root.join(format!("freeboard-peers-{}", std::process::id()));
        fs::create_dir(&group).context("no control group; this needs root")?;
        let limited = Self { group };
        let written = fs::write(limited.group.join(file), limit);
        written.with_context(|| format!("the kernel does not limit the disk {disk}"))?;
        Ok(limited)
    }

    pub fn add(&self, process: u32) -> Result<()> {
        let added = fs::write(self.group.join("cgroup.procs"), process.to_string());
        added.context("the process is not limited")
    }
}

impl Drop for DiskLimit {
    fn drop(&mut self) {
        for _ in 0..REMOVALS_MAX {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The number of the whole disk: the kernel limits no partition.
fn disk_of(folder: &Path) -> Result<String> {
    let device = fs::metadata(folder)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let entry = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let disk = match entry.join("partition").exists() {
        true => entry.canonicalize()?.join("../dev"),
        false => entry.join("dev"),
    };
    let number = fs::read_to_string(&disk).context("the folder is on no disk")?;
    Ok(number.trim().to_owned())
}
