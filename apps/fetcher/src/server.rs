//! Connecting to a server: one timeout, one runtime, one error.

use std::{io, time::Duration};

use tokio::{
    runtime::{self, Runtime},
    time::timeout,
};

/// Connecting to RabbitMQ or MariaDB failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one of the server without TLS.
    #[error("not a URL of the form {form}: {reason}")]
    Url {
        /// A valid URL.
        form: &'static str,
        /// The details.
        reason: String,
    },
    /// A setting is invalid.
    #[error("the settings of the broker: {0}")]
    Options(&'static str),
    /// The host is unknown.
    #[error("{server}'s host {host} is not known")]
    UnknownHost {
        /// The kind of server.
        server: &'static str,
        /// The host.
        host: String,
    },
    /// The server cannot be reached.
    #[error("{server} cannot be reached: {error}")]
    Unreachable {
        /// The kind and the address of the server.
        server: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The server did not answer in time.
    #[error("{0} does not answer in time")]
    TimedOut(String),
    /// The user or the password is wrong.
    #[error("{0} refuses the user or the password")]
    Credentials(String),
    /// The database or virtual host does not exist, or the user has no access.
    #[error("{server} refuses the {database}: {reason}")]
    Database {
        /// The kind and the address of the server.
        server: String,
        /// `database` or `virtual host`.
        database: &'static str,
        /// The server's message.
        reason: String,
    },
    /// The server answers unexpectedly.
    #[error("{server}: {reason}")]
    Protocol {
        /// The kind and the address of the server.
        server: String,
        /// The details.
        reason: String,
    },
    /// The runtime cannot be created.
    #[error("no runtime for {server}: {error}")]
    Runtime {
        /// The kind of server.
        server: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl ConnectError {
    pub(crate) fn unreachable(server: String, error: &io::Error) -> Self {
        Self::Unreachable {
            server,
            error: io::Error::new(error.kind(), error.to_string()),
        }
    }
}

/// A server to connect to.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) kind: &'static str,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) timeout: Duration,
}

impl Server {
    /// Its kind and address.
    pub(crate) fn name(&self) -> String {
        format!("{} at {}:{}", self.kind, self.host, self.port)
    }

    /// Finds the host and connects to it; `error` explains a failure of `attempt`.
    pub(crate) async fn connect<T, E>(
        &self,
        attempt: impl Future<Output = Result<T, E>>,
        error: fn(String, &E) -> ConnectError,
    ) -> Result<T, ConnectError> {
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        // An unreachable resolver is silent for a long time.
        if !matches!(timeout(self.timeout, lookup).await, Ok(Ok(_))) {
            return Err(ConnectError::UnknownHost {
                server: self.kind,
                host: self.host.clone(),
            });
        }
        match timeout(self.timeout, attempt).await {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(refused)) => Err(error(self.name(), &refused)),
            Err(_) => Err(ConnectError::TimedOut(self.name())),
        }
    }
}

/// A runtime with one thread. Dropping it does not wait for its tasks: a resolver that does not answer would block
/// for long, and a blocking shutdown panics inside another runtime.
#[derive(Debug)]
pub(crate) struct OneThread(Option<Runtime>);

impl OneThread {
    pub(crate) fn new(server: &'static str, thread: &str) -> Result<Self, ConnectError> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(thread)
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => Ok(Self(Some(runtime))),
            Err(error) => Err(ConnectError::Runtime { server, error }),
        }
    }
}

impl std::ops::Deref for OneThread {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
