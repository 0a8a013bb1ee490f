//! Reads all streams when the processes have ended.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use anyhow::{Context, Result, anyhow};
use freeboard::{
    remote::Epoch,
    stream::{ReaderOptions, storage::Disk},
};
use serde::Serialize;

use super::device::{Entry, path_of};

/// What the streams have.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Found {
    /// Reports.
    pub(super) written: u64,
    /// Epochs of partitions that have written.
    pub(super) epochs: u64,
    /// Reports behind one of a newer epoch, and reports that do not count on from the one before.
    pub(super) of_two_epochs: u64,
    /// Answered reports that are not there.
    pub(super) lost: u64,
    /// Reports that are there twice.
    pub(super) twice: u64,
}

impl Found {
    pub(super) fn failure(&self) -> Option<String> {
        let sums = [self.of_two_epochs, self.lost, self.twice];
        (sums != [0; 3]).then(|| {
            format!(
                "{} reports were written by an older epoch or over another, {} answered ones are lost, {} are there twice",
                self.of_two_epochs, self.lost, self.twice
            )
        })
    }
}

/// Compares the streams with the numbers of the answered reports.
///
/// # Errors
/// A stream cannot be read.
pub(super) fn check(folder: &Path, partitions: u32, answered: &[u64]) -> Result<Found> {
    let mut found = Found::default();
    let mut numbers = HashSet::new();
    for partition in 0..partitions {
        let path = path_of(folder, partition);
        if !path.exists() {
            continue;
        }
        let storage = Disk::open_stream(&path)?;
        let reader = ReaderOptions::new().open_on(std::sync::Arc::new(storage))?;
        let mut newest: Option<Epoch> = None;
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for record in reader {
            let record = record.with_context(|| format!("partition {partition}"))?;
            let entry = Entry::decode(&record.payload).map_err(|error| anyhow!(error))?;
            let count = counts.entry(entry.device).or_default();
            *count += 1;
            let is_older = newest.is_some_and(|it| entry.epoch < it);
            found.of_two_epochs += u64::from(is_older || *count != entry.count);
            found.epochs += u64::from(newest.is_none_or(|it| it < entry.epoch));
            newest = newest.max(Some(entry.epoch));
            found.twice += u64::from(!numbers.insert(entry.number));
            found.written += 1;
        }
    }
    found.lost = answered.iter().filter(|it| !numbers.contains(it)).count() as u64;
    Ok(found)
}
