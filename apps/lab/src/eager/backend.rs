//! What is behind the proxy: a process of its own, started when it is first needed.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result};

use super::plan::BackendKind;
use crate::{console::Console, serve::resolve, usage::Usage};

/// How long a database that runs may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MysqlChoice {
    /// One that is started for the scene.
    Auto,
    /// HOST:PORT, or a URL.
    Running(String),
}

impl FromStr for MysqlChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            _ if text.contains(':') => Ok(Self::Running(text.to_owned())),
            _ => Err("expected auto, HOST:PORT or mysql://user:password@HOST:PORT/database"),
        }
    }
}

/// A server behind the proxy.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) kind: BackendKind,
    pub(super) address: SocketAddr,
    /// Who logs in, as a URL, if it is not who always does.
    pub(super) login: Option<String>,
    /// Ends with this.
    _process: Option<Process>,
}

#[derive(Debug)]
enum Process {
    #[cfg(unix)]
    Server {
        _server: freeboard_test_servers::Server,
    },
    Echo(Child),
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Echo(child) = self {
            // It ends when its input does, which is closed first.
            let _ = child.wait();
        }
    }
}

impl Backend {
    /// Starts it, or finds it. Without a `choice` it is an echo if no MariaDB can be started.
    pub(super) fn start(
        kind: BackendKind,
        choice: Option<BackendKind>,
        mysql: &MysqlChoice,
        console: &Console,
    ) -> Result<Self> {
        match (kind, mysql) {
            (BackendKind::Echo, _) => Self::echo(),
            (BackendKind::Mariadb, MysqlChoice::Running(text)) => Self::running(text),
            (BackendKind::Mariadb, MysqlChoice::Auto) => match (Self::mariadb(console), choice) {
                (Err(error), None) => {
                    console.line(&format!("{error}. So an echo is behind the proxy."));
                    Self::echo()
                }
                (started, _) => started,
            },
        }
    }

    fn echo() -> Result<Self> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut child = Command::new(program)
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the echo cannot be started")?;
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        let process = Some(Process::Echo(child));
        BufReader::new(output)
            .read_line(&mut line)
            .context("the echo says nothing")?;
        let address = line.trim().parse().context("the echo says no address")?;
        Ok(Self {
            kind: BackendKind::Echo,
            address,
            login: None,
            _process: process,
        })
    }

    #[cfg(unix)]
    fn mariadb(console: &Console) -> Result<Self> {
        console.line("starting a MariaDB");
        let server = freeboard_test_servers::mariadb().map_err(|error| {
            Usage::new(format!(
                "{error}; --mysql HOST:PORT uses one that runs, --backend echo needs none"
            ))
        })?;
        Ok(Self {
            kind: BackendKind::Mariadb,
            address: server.address(),
            login: None,
            _process: Some(Process::Server { _server: server }),
        })
    }

    #[cfg(not(unix))]
    fn mariadb(_: &Console) -> Result<Self> {
        let text = "no MariaDB can be started here; --mysql HOST:PORT uses one that runs";
        Err(Usage::new(text).into())
    }

    fn running(text: &str) -> Result<Self> {
        let (host, login) = match text.strip_prefix("mysql://") {
            None => (text, None),
            Some(rest) => {
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                let host = host.split(['/', '?']).next().unwrap_or(host);
                (host, Some(text.to_owned()))
            }
        };
        let address = resolve(host)?;
        // Else each request of each run would say so, at length.
        TcpStream::connect_timeout(&address, PATIENCE)
            .with_context(|| format!("no database at {address}"))?;
        Ok(Self {
            kind: BackendKind::Mariadb,
            address,
            login,
            _process: None,
        })
    }
}
