//! A running server and the recipe that starts it.

use std::{
    fs::{self, File},
    io,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{guarded::Guarded, port::Port};

/// Another program may bind a reserved port by its number: so often another port is tried.
const ATTEMPTS: u32 = 3;
/// The interval between two connection attempts, and between two looks at stopped threads.
const NAP: Duration = Duration::from_millis(5);
/// The time in which a server must listen.
const START_TIME_MAX: Duration = Duration::from_secs(120);
/// The time in which the threads of a server must stop. One that waits for a disk stops afterwards.
const STOP_TIME_MAX: Duration = Duration::from_secs(60);
/// The characters of a thread's state that an error shows.
const STAT_CHARS: usize = 40;
/// The lines of its log that an error shows.
const LOG_LINES: usize = 5;

/// Makes the command of a server from its folder and the port to listen on. It owns whatever else the server must
/// keep, such as further ports.
type Launch = dyn Fn(&Path, u16) -> Command + Send + Sync;

/// The properties of one kind of server.
pub(crate) struct Recipe {
    /// Its common name.
    pub(crate) name: &'static str,
    /// Debian's packages, separated by spaces.
    pub(crate) packages: &'static str,
    /// The command that prepares an empty folder once, before the first start.
    pub(crate) prepare: Option<fn(&Path) -> Command>,
    /// The command of the server, in the foreground.
    pub(crate) command: Box<Launch>,
}

/// A server on loopback with a folder of its own. Dropping it kills it and removes the folder.
pub struct Server {
    recipe: Recipe,
    folder: TempDir,
    port: Port,
    process: Option<Guarded>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Server")
            .field("name", &self.recipe.name)
            .field("port", &self.port.number())
            .field("runs", &self.process.is_some())
            .finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn start(recipe: Recipe) -> Result<Self, ServerError> {
        let name = recipe.name;
        let io = |error| ServerError::Io { name, error };
        let folder = tempfile::Builder::new()
            .prefix("freeboard-")
            .tempdir()
            .map_err(io)?;
        let mut server = Self {
            recipe,
            folder,
            port: Port::reserve().map_err(io)?,
            process: None,
        };
        server.prepare()?;
        for _ in 1..ATTEMPTS {
            match server.run() {
                Err(ServerError::NotReady { .. }) => {}
                result => return result.map(|()| server),
            }
            server.port = Port::reserve().map_err(io)?;
        }
        server.run().map(|()| server)
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Kills it like `kill -9`. Its data stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again after [`Server::kill`], on the same port and with its data.
    ///
    /// # Errors
    /// [`ServerError`]; a retry is possible.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.kill();
        self.run()
    }

    /// Kills it if it runs, and starts it on the same port without its data.
    ///
    /// # Errors
    /// [`ServerError`]; a retry is possible.
    pub fn restart_empty(&mut self) -> Result<(), ServerError> {
        self.kill();
        let name = self.recipe.name;
        let io = |error| ServerError::Io { name, error };
        for entry in fs::read_dir(self.folder.path()).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let removed = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.map_err(io)?;
        }
        self.prepare()?;
        self.run()
    }

    /// Stops its process by SIGSTOP: connections stay open, and nothing answers until [`Server::resume`]. Returns when all
    /// its threads have stopped.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::NotFound`] if it does not run; [`io::ErrorKind::TimedOut`] with the state of a
    /// thread that does not stop for a minute.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let id = self.process.as_ref().map(Guarded::id);
        let threads = format!("/proc/{}/task", id.ok_or(io::ErrorKind::NotFound)?);
        let begun = Instant::now();
        while let Some(running) = running_thread(&threads)? {
            if begun.elapsed() > STOP_TIME_MAX {
                let name = self.recipe.name;
                let text = format!("a thread of {name} does not stop: {running}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            thread::sleep(NAP);
        }
        Ok(())
    }

    /// Continues it after [`Server::pause`].
    ///
    /// # Errors
    /// As those of [`Server::pause`].
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends a signal to the server, but not to its guard, which must be able to kill it.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let id = self.process.as_ref().map(Guarded::id);
        let process = id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(kill_process(
            process.ok_or(io::ErrorKind::NotFound)?,
            signal,
        )?)
    }

    /// Runs the command that prepares an empty folder.
    fn prepare(&self) -> Result<(), ServerError> {
        let name = self.recipe.name;
        let Some(prepare) = self.recipe.prepare else {
            return Ok(());
        };
        let output = prepare(self.folder.path()).stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.recipe.not_started(error))?;
        if output.status.success() {
            return Ok(());
        }
        let mut said = output.stdout;
        said.extend_from_slice(&output.stderr);
        let log = last_lines(&String::from_utf8_lossy(&said));
        Err(ServerError::NotReady { name, log })
    }

    fn run(&mut self) -> Result<(), ServerError> {
        let name = self.recipe.name;
        let io = |error| ServerError::Io { name, error };
        let command = (self.recipe.command)(self.folder.path(), self.port.number());
        let log_path = self.folder.path().join("log");
        let log = File::create(&log_path).map_err(io)?;
        let stdout = Stdio::from(log.try_clone().map_err(io)?);
        let process = Guarded::spawn(&command, stdout, log.into());
        self.process = Some(process.map_err(|error| self.recipe.not_started(error))?);
        let begun = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            let has_ended = match &mut self.process {
                Some(process) => process.has_ended().map_err(io)?,
                None => true,
            };
            if has_ended || begun.elapsed() > START_TIME_MAX {
                self.kill();
                let log = last_lines(&fs::read_to_string(&log_path).unwrap_or_default());
                return Err(ServerError::NotReady { name, log });
            }
            thread::sleep(NAP);
        }
        Ok(())
    }
}

impl Recipe {
    fn not_started(&self, error: io::Error) -> ServerError {
        let name = self.name;
        if error.kind() == io::ErrorKind::NotFound {
            let packages = self.packages;
            return ServerError::Missing { name, packages };
        }
        ServerError::Io { name, error }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    last.join("; ")
}

/// Starting a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not installed.
    #[error("{name} is not installed; `apt-get install {packages}` brings it")]
    Missing {
        /// Its common name.
        name: &'static str,
        /// Debian's packages, separated by spaces.
        packages: &'static str,
    },
    /// The operating system reported an error.
    #[error("{name} cannot be started: {error}")]
    Io {
        /// Its common name.
        name: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// It exited, or did not listen in time.
    #[error("{name} does not start: {log}")]
    NotReady {
        /// Its common name.
        name: &'static str,
        /// The last lines of its log.
        log: String,
    },
}

/// The begin of `/proc/PID/task/TID/stat` of a thread that has neither stopped nor ended. The kernel stops one after the other.
fn running_thread(threads: &str) -> io::Result<Option<String>> {
    for thread in fs::read_dir(threads)? {
        let Ok(text) = fs::read_to_string(thread?.path().join("stat")) else {
            // It has ended since.
            continue;
        };
        // The state follows the name, which is in parentheses and may contain some.
        let state = text.rsplit(") ").next().and_then(|it| it.chars().next());
        if !matches!(state, Some('T' | 'Z' | 'X')) {
            return Ok(Some(text.chars().take(STAT_CHARS).collect()));
        }
    }
    Ok(None)
}
