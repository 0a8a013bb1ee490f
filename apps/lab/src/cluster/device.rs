//! The devices: actors of a directory across processes, and the streams that they write to.
//!
//! A partition has one stream in a folder that all processes see. The first activation of a partition opens the stream with
//! its epoch, which fences the writer of each earlier one, and reads what they have written.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use freeboard::{
    Actor, Context, Deferred, DeferredHandler, Handler,
    remote::{Epoch, Fence, RemoteDirectoryOptions, RemoteMessage, RemoteStore},
    stream::{ReaderOptions, StreamOptions, StreamWriter, SyncMode, Ticket},
};
use serde::{Deserialize, Serialize};

use super::args::Plan;

/// Segments begin small: there are many streams.
const SEGMENT_BYTES: u64 = 1 << 20;

/// A device reports; the reply is the count of its reports, once this one is in the stream.
#[derive(Debug, Serialize, Deserialize, RemoteMessage)]
#[remote(name = "cluster.report", reply = u64)]
pub(super) struct Report {
    /// Unique in a run.
    pub(super) number: u64,
}

/// What a stream has of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) device: u32,
    /// The reports of this device up to this one.
    pub(super) count: u64,
    pub(super) number: u64,
    pub(super) epoch: Epoch,
}

impl Entry {
    fn encode(self) -> Vec<u8> {
        let mut bytes = self.device.to_le_bytes().to_vec();
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.epoch.to_bytes());
        bytes
    }

    /// # Errors
    /// It is no entry.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let entry = || {
            let (device, rest) = bytes.split_first_chunk()?;
            let (count, rest) = rest.split_first_chunk()?;
            let (number, epoch) = rest.split_first_chunk()?;
            Some(Self {
                device: u32::from_le_bytes(*device),
                count: u64::from_le_bytes(*count),
                number: u64::from_le_bytes(*number),
                epoch: Epoch::from_bytes(epoch.try_into().ok()?),
            })
        };
        entry().ok_or_else(|| format!("a record of {} bytes is no report", bytes.len()))
    }
}

/// The folder of a partition's stream.
pub(super) fn path_of(folder: &Path, partition: u32) -> PathBuf {
    folder.join(format!("partition-{partition}"))
}

/// The options of a directory's part in a process.
pub(super) fn options(plan: &Plan) -> RemoteDirectoryOptions<u32, Device> {
    RemoteDirectoryOptions::new("devices")
        .partitions(plan.partitions)
        .lease(plan.ttl)
        .activations_max(plan.devices as usize)
        .accept::<Report>()
}

/// A partition's stream, of one epoch.
struct Log {
    writer: StreamWriter,
    epoch: Epoch,
    counts: Mutex<HashMap<u32, u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

impl Log {
    fn open(folder: &Path, fence: &Fence) -> Result<Self, String> {
        let path = path_of(folder, fence.partition());
        // What the operating system has survives a killed process.
        let options = StreamOptions::new()
            .sync(SyncMode::None)
            .segment_bytes(SEGMENT_BYTES)
            .epoch(fence.epoch());
        let writer = options.open(path).map_err(text)?;
        // No earlier epoch writes from here on.
        let mut counts = HashMap::new();
        let reader = ReaderOptions::new().open_on(writer.storage().clone());
        for record in reader.map_err(text)? {
            let entry = Entry::decode(&record.map_err(text)?.payload)?;
            counts.insert(entry.device, entry.count);
        }
        Ok(Self {
            writer,
            epoch: fence.epoch(),
            counts: Mutex::new(counts),
        })
    }

    fn append(&self, device: u32, number: u64) -> Result<(u64, Ticket), String> {
        let mut counts = lock(&self.counts);
        let count = counts.get(&device).copied().unwrap_or_default() + 1;
        let entry = Entry {
            device,
            count,
            number,
            epoch: self.epoch,
        };
        let ticket = self.writer.append(&entry.encode()).map_err(text)?;
        counts.insert(device, count);
        Ok((count, ticket))
    }
}

/// The streams of the partitions that this process keeps.
pub(super) struct Devices {
    folder: PathBuf,
    /// Each is replaced when this process keeps the partition again.
    logs: Mutex<BTreeMap<u32, Arc<Log>>>,
}

impl Devices {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            logs: Mutex::default(),
        }
    }
}

impl RemoteStore<u32, Device> for Devices {
    type Error = String;

    fn load(&self, device: &u32, fence: &Fence) -> Result<Device, String> {
        let mut logs = lock(&self.logs);
        let known = logs.get(&fence.partition());
        let log = match known.filter(|it| it.epoch == fence.epoch()) {
            Some(log) => log.clone(),
            None => {
                let log = Arc::new(Log::open(&self.folder, fence)?);
                logs.insert(fence.partition(), log.clone());
                log
            }
        };
        Ok(Device { id: *device, log })
    }

    fn save(&self, _: &u32, _: &Fence, _: &mut Device) -> Result<(), String> {
        // Each report is in the stream before its reply.
        Ok(())
    }
}

/// One device.
pub(super) struct Device {
    id: u32,
    log: Arc<Log>,
}

impl Actor for Device {}

/// The stream has a report, or not.
pub(super) struct Written {
    reply: Deferred<u64>,
    count: u64,
    is_written: bool,
}

impl DeferredHandler<Report> for Device {
    type Reply = u64;

    fn handle(&mut self, report: Report, reply: Deferred<u64>, cx: &mut Context<Self>) {
        // It waits while the stream's memory is full.
        match cx.blocking(|| self.log.append(self.id, report.number)) {
            Ok((count, ticket)) => {
                let into_written = move |outcome: Result<u64, _>| Written {
                    reply,
                    count,
                    is_written: outcome.is_ok(),
                };
                cx.pipe(ticket, into_written)
                    .expect("a runtime is attached");
            }
            // A newer epoch has the stream, or it has failed: without an answer.
            Err(_) => cx.stop(),
        }
    }
}

impl Handler<Written> for Device {
    type Reply = ();

    fn handle(&mut self, written: Written, cx: &mut Context<Self>) {
        if written.is_written {
            written.reply.reply(written.count);
        } else {
            cx.stop();
        }
    }
}
