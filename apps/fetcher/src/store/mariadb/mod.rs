//! MariaDB as a directory and as the slow store, through `mysql_async` on a runtime of its own with one thread.
//!
//! ```text
//!   look_up ──queries_max──▶ a task each ──connections_max──▶ a connection each ──▶ the server
//! ```
//!
//! The next query replaces a lost connection. `queries_max` bounds the attempts: if the server is down, at most so
//! many queries wait for it.

mod connections;
mod options;
mod table;

use std::sync::Arc;

use bytes::Bytes;
use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Directory, OnDevices, OnFetched, Report, SlowStore, StoreError};
use crate::{
    ConnectError,
    server::{OneThread, Server},
};
use connections::Connections;
use options::explain;
pub use options::{DATABASE_DEFAULT, MariaDbOptions};
use table::Layout;

const MARIADB: &str = "MariaDB";
const DEVICES: Layout = Layout {
    table: "devices",
    name: "user",
    text: "device",
};
const KEYS: Layout = Layout {
    table: "slow_store",
    name: "name",
    text: "value",
};

/// A directory in a MariaDB database. Dropping it closes it: queries in flight end with
/// [`StoreError::Unavailable`].
pub struct MariaDbDirectory {
    connections: Arc<Connections>,
    queries: Arc<Semaphore>,
    runtime: OneThread,
}

impl MariaDbDirectory {
    /// Connects. Blocks; must not be called inside another runtime.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(options: MariaDbOptions) -> Result<Self, ConnectError> {
        Self::with_table(options, DEVICES)
    }

    fn with_table(options: MariaDbOptions, layout: Layout) -> Result<Self, ConnectError> {
        let opts = check(&options.url)?;
        let server = Server {
            kind: MARIADB,
            host: opts.ip_or_hostname().to_owned(),
            port: opts.tcp_port(),
            timeout: options.connect_timeout,
        };
        let runtime = OneThread::new(MARIADB, "mariadb")?;
        let (opts, first) = runtime.block_on(server.connect(connect(opts), explain))?;
        let connections = Connections::new(
            opts,
            server.name(),
            layout,
            first,
            options.connections_max.get(),
            options.query_timeout,
        );
        Ok(Self {
            connections: Arc::new(connections),
            queries: Arc::new(Semaphore::new(options.queries_max.get().into())),
            runtime,
        })
    }

    fn begin(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let permit = self.queries.clone().try_acquire_owned();
        permit.map_err(|_| StoreError::Full)
    }
}

fn check(url: &str) -> Result<Opts, ConnectError> {
    let opts = Opts::from_url(url).map_err(|error| ConnectError::Url {
        form: "mysql://USER:PASSWORD@HOST:PORT/DATABASE",
        reason: error.to_string(),
    })?;
    // In a URL an IPv6 address is in brackets, which resolvers do not accept.
    let host = opts.ip_or_hostname().trim_matches(['[', ']']).to_owned();
    let builder = OptsBuilder::from_opts(opts)
        .ip_or_hostname(host)
        // Connect to the address of the URL, not to a Unix socket.
        .prefer_socket(false)
        .stmt_cache_size(table::STATEMENTS_MAX);
    Ok(builder.into())
}

/// The first connection, and the options for others.
async fn connect(opts: Opts) -> mysql_async::Result<(Opts, Conn)> {
    if opts.db_name().is_some() {
        let first = Conn::new(opts.clone()).await?;
        return Ok((opts, first));
    }
    let mut maker = Conn::new(opts.clone()).await?;
    let make = format!("CREATE DATABASE IF NOT EXISTS {DATABASE_DEFAULT}");
    maker.query_drop(make).await?;
    maker.disconnect().await?;
    let opts = Opts::from(OptsBuilder::from_opts(opts).db_name(Some(DATABASE_DEFAULT)));
    let first = Conn::new(opts.clone()).await?;
    Ok((opts, first))
}

impl Directory for MariaDbDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        let report = Report::new(on_outcome);
        let permit = match self.begin() {
            Ok(permit) => permit,
            Err(full) => return report.tell(Err(full)),
        };
        let connections = self.connections.clone();
        self.runtime.spawn(async move {
            let outcome = connections.look_up(&users).await;
            // First, so that the callback finds a free permit.
            drop(permit);
            report.tell(outcome);
        });
    }

    /// As the trait says.
    ///
    /// # Panics
    /// Inside a runtime, so in a callback of this directory's.
    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        let _permit = self.begin()?;
        let users = [user.to_owned()];
        let answers = self.runtime.block_on(self.connections.look_up(&users))?;
        Ok(answers.into_iter().next().flatten())
    }

    /// As the trait says.
    ///
    /// # Panics
    /// Inside a runtime, so in a callback of this directory's.
    fn provision(&self, users: u64) -> Result<(), StoreError> {
        self.runtime.block_on(self.connections.provision(users))
    }
}

/// The slow store in a MariaDB database: a table `slow_store` with the columns `name`, the key, and `value`, a text. It is
/// created if it is missing.
pub struct MariaDbStore(MariaDbDirectory);

impl MariaDbStore {
    /// Connects, and creates the table if it is missing. Blocks; must not be called inside another runtime.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(options: MariaDbOptions) -> Result<Self, ConnectError> {
        let database = MariaDbDirectory::with_table(options, KEYS)?;
        let created = database.runtime.block_on(database.connections.create());
        created.map_err(|error| ConnectError::Protocol {
            server: MARIADB.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self(database))
    }
}

impl SlowStore for MariaDbStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        // The keys of notifications are texts.
        let name = String::from_utf8_lossy(key).into_owned();
        self.0.look_up(
            vec![name],
            Box::new(|found| {
                let value = found.map(|found| found.into_iter().next().flatten());
                on_outcome(value.map(|value| value.map(Bytes::from)));
            }),
        );
    }
}
