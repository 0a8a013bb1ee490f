//! A disk for crash tests: it loses, tears and reorders unsynced writes, and fails any call.
//!
//! After the simulators of FoundationDB and TigerBeetle: all chance comes from one seed, so that a
//! failure is repeated by its number. Several threads that call it see the same run each time if they run in a simulation
//! (`freeboard_platform::simulation`), where a call takes virtual time; otherwise the order of their calls is the
//! operating system's. Disks share nothing: give each node of a simulation its own.
//!
//! ```text
//!                 write_at              sync                          power fails
//!   Cached   ──▶ page cache ──────▶ device             page cache ──▶ some dirty sectors ──▶ device
//!   Durable  ──▶ page cache and device    (without direct I/O: page cache, and a sync behind it)
//!   create, rename, remove ──▶ names ── sync_directory ──▶ device     names ──▶ some changes ──▶ device
//! ```
//!
//! **Promised:** A durable write is on the device when it returns; a cached one after
//! [`sync`](super::StorageFile::sync); names after [`sync_directory`](super::Storage::sync_directory)
//! (and no earlier: syncing a new file does not keep its name). Sectors are written whole or not at
//! all. A file's lengths become durable in order, and bytes that were cut off and added again are
//! zeros.
//!
//! **Not promised:** When the power fails, each unsynced sector is kept or not, whatever the order in
//! which they were written; one that was written twice may be as it was in between. A write in flight
//! has reached any of its sectors, and other threads see that before it returns. Each
//! unsynced change of names is kept or not, unless an earlier one of the same names was lost. That
//! is less than what ext4 promises, whose journal keeps all changes in order.
//!
//! **When a call fails.** A write has written any of its sectors. A sync has written some of the
//! dirty ones *and marked all clean*, as Linux does: the next sync succeeds, and the other sectors are
//! lost, while the page cache still shows them. [`Access::ReadDevice`](super::Access::ReadDevice)
//! shows the device. A change of names or lengths was made or not.
//!
//! **Reports.** As on Linux since 4.13, a failed sync is reported once to each file description that was open then,
//! whichever wrote the lost bytes: by the failed call itself, and to the others by their next sync. A description that
//! is opened later gets the last failure only if it was not reported before.
//!
//! ```
//! use std::sync::Arc;
//! use freeboard_stream::storage::{
//!     Access, Storage,
//!     simulated::{PowerIsOff, SimulatedDisk, SimulatedSettings},
//! };
//!
//! let disk = SimulatedDisk::new(SimulatedSettings { seed: 7, ..Default::default() });
//! let file = disk.create("notes", 0, Access::Cached)?;
//! disk.sync_directory()?;
//! file.write_at(&[b"kept"], 0)?;
//! file.sync()?;
//! file.write_at(&[b", perhaps"], 4)?;
//!
//! disk.power_fails_at(disk.calls() + 1);
//! assert!(PowerIsOff::caused(&file.sync().unwrap_err()));
//!
//! let disk = disk.reboot();
//! let mut found = [0; 4];
//! disk.open("notes", Access::Read)?.read_at(&mut found, 0)?;
//! assert_eq!(&found, b"kept");
//! # Ok::<(), std::io::Error>(())
//! ```

mod content;
mod directory;
mod disk;
mod fault;
mod machine;

pub use disk::SimulatedDisk;
pub use fault::{Fault, Operation, PowerIsOff};
pub use machine::SimulatedSettings;
