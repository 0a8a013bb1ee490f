//! Ctrl-C: the first one ends the run in order, the second one the process at once.
//!
//! `timeout -s INT` and some shells signal both a process and its group: what comes right behind the
//! first one is taken for the same.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// What the shell calls "ended by SIGINT".
pub(crate) const EXIT_CODE: u8 = 130;

/// Within this time a further signal is the same Ctrl-C.
const SAME: Duration = Duration::from_millis(250);

type Listener = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    came_at: OnceLock<Instant>,
    /// The innermost last.
    listeners: Mutex<Vec<Listener>>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn come(&self) {
        let now = Instant::now();
        let came_at = *self.came_at.get_or_init(|| now);
        let is_first = came_at == now;
        if !is_first && now - came_at < SAME {
            return;
        }
        let listeners = self.lock();
        if listeners.is_empty() || !is_first {
            // Nothing runs that could end in order, or the user will not wait for it.
            std::process::exit(i32::from(EXIT_CODE));
        }
        listeners.iter().rev().for_each(|listener| listener());
    }
}

/// Listens for Ctrl-C.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<State>);

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Interrupt({})", self.has_come())
    }
}

impl Interrupt {
    /// Takes over Ctrl-C for the whole process. Once.
    pub(crate) fn install() -> Result<Self> {
        let interrupt = Self::default();
        let state = interrupt.0.clone();
        ctrlc::set_handler(move || state.come()).context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }

    /// Whether it has come.
    pub(crate) fn has_come(&self) -> bool {
        self.0.came_at.get().is_some()
    }

    /// Waits until it comes; a second one ends the process.
    pub(crate) fn wait(&self) {
        let (sender, came) = mpsc::channel();
        let _listening = self.listen(move || {
            let _ = sender.send(());
        });
        if !self.has_come() {
            // It ends only by the sending.
            let _ = came.recv();
        }
    }

    /// What a run that went well exits with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.has_come() {
            ExitCode::from(EXIT_CODE)
        } else {
            ExitCode::SUCCESS
        }
    }

    /// Calls `listener` on Ctrl-C until what is returned is dropped. Who listens later is called first, and
    /// stops first.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + 'static) -> Listening {
        self.0.lock().push(Box::new(listener));
        Listening(self.0.clone())
    }
}

/// Ends the listening when dropped.
pub(crate) struct Listening(Arc<State>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.lock().pop();
    }
}
