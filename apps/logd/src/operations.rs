//! What an operator needs of a running server: reload, metrics, health.
//!
//! ```text
//!   SIGHUP ──▶ reload ──▶ Server::reload, Server::rotate
//!   GET /metrics ──▶ render
//!   GET /healthz ──▶ health
//! ```

use std::sync::Arc;

use freeboard::{
    System,
    meter::{Exposition, metrics},
    net::poller::Poller,
    platform::sync::{Mutex, MutexGuard},
};

use crate::{
    disk::DiskWatch,
    priority::{Group, Severity},
    server::Server,
    settings::{Settings, SettingsError},
    sink::lock,
};

/// Less free space in a directory is worth a warning, in bytes. It is no problem: a stream may fill its disk, and a sink
/// that cannot write is one by itself.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// A certificate that expires within this time is worth a warning, in seconds.
#[cfg(feature = "tls")]
const EXPIRES_SOON_S: i64 = 14 * 86_400;

metrics! {
    const RELOADS: State;
    counter "freeboard_logd_reloads_total" = |it| it.reloads, "Reloads that succeeded.";
    counter "freeboard_logd_reload_failures_total" = |it| it.failures,
        "Reloads that failed; the settings stayed as they were.";
}

metrics! {
    const DIRECTORIES: [(String, Option<u64>)];
    gauge "freeboard_logd_disk_free_bytes" by "directory" =
        |it| it.iter().filter_map(|(path, free)| Some((path, (*free)?))),
        "Free space where a sink writes; missing if it was not read for 10 s.";
}

/// Whether a server does its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it does not; empty if it does.
    pub problems: Vec<String>,
    /// What an operator should check soon.
    pub warnings: Vec<String>,
}

struct State {
    /// Those of the last successful reload.
    settings: Settings,
    reloads: u64,
    failures: u64,
    /// The error of the last reload, if it failed.
    failure: Option<String>,
}

/// A server that an operator looks after.
pub struct Operations {
    system: System,
    poller: Poller,
    server: Arc<Server>,
    /// What needs a restart is as it was then.
    started: Settings,
    /// Of the directories of the sinks.
    disks: DiskWatch,
    state: Mutex<State>,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Operations({:?})", self.server)
    }
}

impl Operations {
    /// Of a server that was started with these settings.
    #[must_use]
    pub fn new(system: &System, poller: &Poller, server: Arc<Server>, settings: Settings) -> Self {
        Self {
            system: system.clone(),
            poller: poller.clone(),
            server,
            disks: DiskWatch::start(settings.directories()),
            started: settings.clone(),
            state: Mutex::new(State {
                settings,
                reloads: 0,
                failures: 0,
                failure: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Applies settings that were read again (see [`Server::reload`]), and begins new files. Certificates are read again
    /// even if the settings are equal. The server writes a line about it into the log, which is returned. It blocks the
    /// thread, so it must not be called in a handler.
    ///
    /// # Errors
    /// The line about a reload that failed. The settings and the files are as they were.
    pub fn reload(&self, read: Result<Settings, SettingsError>) -> Result<String, String> {
        let reloaded = read
            .map_err(|error| error.to_string())
            .and_then(|settings| self.apply(settings));
        let mut state = self.lock();
        let (severity, text) = match &reloaded {
            Ok((settings, text)) => {
                self.server.rotate();
                state.reloads += 1;
                state.failure = None;
                state.settings = settings.clone();
                (Severity::Notice, text.clone())
            }
            Err(error) => {
                let text = format!("reload failed, the settings stay as they were: {error}");
                state.failures += 1;
                state.failure = Some(text.clone());
                (Severity::Error, text)
            }
        };
        drop(state);
        self.server.write_own(severity, &text);
        reloaded.map(|_| text.clone()).map_err(|_| text)
    }

    fn apply(&self, settings: Settings) -> Result<(Settings, String), String> {
        let config = settings.config().map_err(|error| error.to_string())?;
        let reloaded = self.server.reload(&self.system, &self.poller, config);
        let reloaded = reloaded.map_err(|error| error.to_string())?;
        let mut restarts = self.started.restarts(&settings);
        restarts.extend(reloaded.restarts);
        let mut text = "settings reloaded".to_owned();
        if !restarts.is_empty() {
            let changed = restarts.join(", ");
            text += &format!("; changes that take effect after a restart: {changed}");
        }
        if reloaded.inputs_cut > 0 {
            let cut = reloaded.inputs_cut;
            text += &format!("; removed inputs that were not read to the end: {cut}");
        }
        Ok((settings, text))
    }

    /// Adds the metrics of the server and of reloads to `text`.
    pub fn render(&self, text: &mut Exposition) {
        self.server.render(text);
        text.metrics(RELOADS, &[], &*self.lock());
        text.metrics(DIRECTORIES, &[], &self.disks.free_bytes()[..]);
    }

    /// Whether it does its work.
    #[must_use]
    pub fn health(&self) -> Health {
        let mut health = Health::default();
        health.warnings.extend(self.lock().failure.clone());
        let problems = &mut health.problems;
        let config = self.server.handle().config();
        let sinks = self.server.sinks();
        problems.extend((sinks.iter()).filter_map(|sink| sink.problem(config.unhealthy_after)));
        for group in Group::ALL {
            let (dam, bound) = (
                self.server.dam(group),
                config.groups[group as usize].reservoir,
            );
            if dam.depth() >= bound.messages || dam.bytes() >= bound.bytes {
                problems.push(format!("the reservoir of {} is full", group.name()));
            }
        }
        let shed = self.server.shed_recently();
        if shed > 0 {
            let seconds = config.summary_interval.as_secs_f64();
            problems.push(format!("{shed} lines were shed in the last {seconds} s"));
        }
        for input in self.server.inputs() {
            if input.has_lost_its_file() {
                let text = format!("the file of {input} is gone: reload, so that it is made again");
                problems.push(text);
            }
        }
        for (path, free) in self.disks.free_bytes() {
            health.warnings.extend(match free {
                None => Some(format!(
                    "the free space of {path} could not be read for 10 s"
                )),
                Some(free) if free < FREE_BYTES_MIN => Some(format!(
                    "the disk of {path} is nearly full: {free} bytes are free"
                )),
                Some(_) => None,
            });
        }
        #[cfg(feature = "tls")]
        self.check_certificates(&mut health);
        health
    }

    #[cfg(feature = "tls")]
    fn check_certificates(&self, health: &mut Health) {
        let now_s = jiff::Timestamp::now().as_second();
        for input in self.server.inputs() {
            let Some(expires) = input.expires() else {
                continue;
            };
            let left_s = expires.as_second() - now_s;
            if left_s < 0 {
                let text = format!("the certificate of {input} has expired at {expires}");
                health.problems.push(text);
            } else if left_s < EXPIRES_SOON_S {
                let text = format!("the certificate of {input} expires at {expires}");
                health.warnings.push(text);
            }
        }
    }
}
