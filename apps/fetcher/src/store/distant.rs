//! A directory with an added delay.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{Directory, OnDevices, StoreError};

/// A directory whose queries take some time, so that an embedded directory can stand for a remote one.
pub struct DistantDirectory {
    directory: Arc<dyn Directory>,
    time: Duration,
    queries: mpsc::Sender<Query>,
}

struct Query {
    due: Instant,
    users: Vec<String>,
    on_outcome: OnDevices,
}

impl DistantDirectory {
    /// Adds `time` to each query of `directory`.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(directory: Arc<dyn Directory>, time: Duration) -> io::Result<Self> {
        let (queries, travelling) = mpsc::channel::<Query>();
        let destination = directory.clone();
        // The thread ends with the directory. The callers bound the queries in the channel.
        thread::Builder::new()
            .name("distance".to_owned())
            .spawn(move || {
                for query in travelling {
                    let left = query.due.saturating_duration_since(Instant::now());
                    if !left.is_zero() {
                        thread::sleep(left);
                    }
                    destination.look_up(query.users, query.on_outcome);
                }
            })?;
        Ok(Self {
            directory,
            time,
            queries,
        })
    }
}

impl Directory for DistantDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        let query = Query {
            due: Instant::now() + self.time,
            users,
            on_outcome,
        };
        if let Err(refused) = self.queries.send(query) {
            let query = refused.0;
            self.directory.look_up(query.users, query.on_outcome);
        }
    }

    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        thread::sleep(self.time);
        self.directory.look_up_blocking(user)
    }

    fn provision(&self, users: u64) -> Result<(), StoreError> {
        self.directory.provision(users)
    }
}

impl std::fmt::Debug for DistantDirectory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DistantDirectory")
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}
