//! Ctrl-C and SIGTERM, which service managers send: the first one ends the run in order, the second one
//! the process at once.
//!
//! `timeout` and some shells signal both a process and its group: what comes right behind the first one
//! is taken for the same.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// What a shell adds to the number of the signal that ended a process: 130 is Ctrl-C, 143 SIGTERM.
const ENDED_BY: u8 = 128;

/// Within this time a further signal is the same Ctrl-C.
const SAME: Duration = Duration::from_millis(250);

/// Time between two looks at whether a service has failed.
const LOOK: Duration = Duration::from_millis(500);

type Listener = Box<dyn Fn() + Send>;

/// The first of them.
#[derive(Debug, Clone, Copy)]
struct Came {
    at: Instant,
    exit_code: u8,
}

#[derive(Default)]
struct State {
    came: OnceLock<Came>,
    /// The innermost last.
    listeners: Mutex<Vec<Listener>>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn come(&self, exit_code: u8) {
        let at = Instant::now();
        let first = *self.came.get_or_init(|| Came { at, exit_code });
        let is_first = first.at == at;
        if !is_first && at - first.at < SAME {
            return;
        }
        let listeners = self.lock();
        if listeners.is_empty() || !is_first {
            // Nothing runs that could end in order, or the user will not wait for it.
            std::process::exit(i32::from(first.exit_code));
        }
        listeners.iter().rev().for_each(|listener| listener());
    }
}

/// Listens for both.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<State>);

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Interrupt({})", self.has_come())
    }
}

impl Interrupt {
    /// Takes both over for the whole process. Once.
    pub(crate) fn install() -> Result<Self> {
        let interrupt = Self::default();
        let state = interrupt.0.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for Ctrl-C")?;
        let listen = move || {
            for signal in signals.forever() {
                // Their numbers are 2 and 15.
                state.come(ENDED_BY + signal as u8);
            }
        };
        thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(listen)
            .context("cannot start a thread")?;
        Ok(interrupt)
    }

    /// Whether it has come.
    pub(crate) fn has_come(&self) -> bool {
        self.0.came.get().is_some()
    }

    /// From now on it does not end the process; [`Expected::wait`] waits for it. Call it before the service says that it
    /// is ready.
    pub(crate) fn expect(&self) -> Expected {
        let (sender, came) = mpsc::channel();
        let listening = self.listen(move || {
            let _ = sender.send(());
        });
        Expected { came, listening }
    }

    /// Waits until it comes; a second one ends the process.
    pub(crate) fn wait(&self) {
        self.expect().wait();
    }

    /// What a run that went well exits with.
    pub(crate) fn code(&self) -> u8 {
        self.0.came.get().map_or(0, |came| came.exit_code)
    }

    /// The same.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// Calls `listener` when one comes, until what is returned is dropped. Who listens later is called first, and
    /// stops first.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + 'static) -> Listening {
        self.0.lock().push(Box::new(listener));
        Listening(self.0.clone())
    }
}

/// One that is waited for.
pub(crate) struct Expected {
    came: mpsc::Receiver<()>,
    listening: Listening,
}

impl Expected {
    /// Waits until it comes, or has come before; a second one ends the process.
    pub(crate) fn wait(self) {
        if self.listening.0.came.get().is_none() {
            // It ends only by the sending.
            let _ = self.came.recv();
        }
    }

    /// The same, or until `failed` returns a reason, which is asked for again and again.
    pub(crate) fn wait_unless(self, failed: impl Fn() -> Option<String>) -> Option<String> {
        while self.listening.0.came.get().is_none() {
            let reason = failed();
            if reason.is_some() {
                return reason;
            }
            let _ = self.came.recv_timeout(LOOK);
        }
        None
    }
}

/// Ends the listening when dropped.
pub(crate) struct Listening(Arc<State>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.lock().pop();
    }
}
