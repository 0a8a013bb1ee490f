//! A directory that is further away than it is.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{Directory, OnDevices, StoreError};

/// A directory each of whose questions takes some time on its way, as one on another machine's does: for what
/// is embedded to stand for what is not.
pub struct DistantDirectory {
    directory: Arc<dyn Directory>,
    time: Duration,
    questions: mpsc::Sender<Question>,
}

struct Question {
    due: Instant,
    users: Vec<String>,
    on_outcome: OnDevices,
}

impl DistantDirectory {
    /// `directory`, so far away.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(directory: Arc<dyn Directory>, time: Duration) -> io::Result<Self> {
        let (questions, travelling) = mpsc::channel::<Question>();
        let destination = directory.clone();
        // Ends with the directory. What travels is as much as its askers have under way.
        thread::Builder::new()
            .name("distance".to_owned())
            .spawn(move || {
                for question in travelling {
                    let left = question.due.saturating_duration_since(Instant::now());
                    if !left.is_zero() {
                        thread::sleep(left);
                    }
                    destination.look_up(question.users, question.on_outcome);
                }
            })?;
        Ok(Self {
            directory,
            time,
            questions,
        })
    }
}

impl Directory for DistantDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        let question = Question {
            due: Instant::now() + self.time,
            users,
            on_outcome,
        };
        if let Err(refused) = self.questions.send(question) {
            let question = refused.0;
            self.directory.look_up(question.users, question.on_outcome);
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
