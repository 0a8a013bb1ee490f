//! A bounded set of connections.
//!
//! The library's own pool is not used: after a query that timed out, its reply is still on the connection, and the
//! pool would give that connection to the next query. Here a connection that has not answered is closed.

use std::{mem, time::Duration};

use mysql_async::{Conn, DriverError, Error, Opts};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};

use super::{
    super::StoreError,
    table::{Layout, Table},
};

/// The users inserted by one transaction.
const CHUNK_USERS: u64 = 250_000;

/// The timeout of each transaction.
const PROVISION_TIMEOUT: Duration = Duration::from_secs(60);

/// A bounded number of connections.
pub(super) struct Connections {
    opts: Opts,
    server: String,
    table: Table,
    query_timeout: Duration,
    permits: Semaphore,
    /// At most as many as there are permits.
    idle: Mutex<Vec<Conn>>,
}

impl Connections {
    pub(super) fn new(
        opts: Opts,
        server: String,
        layout: Layout,
        first: Conn,
        connections_max: u16,
        query_timeout: Duration,
    ) -> Self {
        Self {
            opts,
            server,
            table: Table::new(layout),
            query_timeout,
            permits: Semaphore::new(connections_max.into()),
            idle: Mutex::new(vec![first]),
        }
    }

    /// The devices of these users, in their order.
    pub(super) async fn look_up(
        &self,
        users: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        self.within(self.query_timeout, async {
            let _permit = self.permits.acquire().await.expect("it is never closed");
            let idle = self.idle.lock().pop();
            if let Some(connection) = idle {
                match self.ask(connection, users).await {
                    // The connection was lost while idle, as were probably the others.
                    Err(error) if is_loss(&error) => drop(mem::take(&mut *self.idle.lock())),
                    outcome => return outcome,
                }
            }
            self.ask(Conn::new(self.opts.clone()).await?, users).await
        })
        .await
    }

    /// Creates the table if it is missing.
    pub(super) async fn create(&self) -> Result<(), StoreError> {
        let connect = self.within(self.query_timeout, Conn::new(self.opts.clone()));
        let mut connection = connect.await?;
        let create = self.table.create(&mut connection);
        self.within(PROVISION_TIMEOUT, create).await
    }

    /// Inserts missing users.
    pub(super) async fn provision(&self, users: u64) -> Result<(), StoreError> {
        let mut connection = self
            .within(self.query_timeout, Conn::new(self.opts.clone()))
            .await?;
        let prepare = self.table.prepare(&mut connection, users);
        let missing = self.within(PROVISION_TIMEOUT, prepare).await?;
        let mut begin = 0;
        while begin < missing {
            let end = missing.min(begin.saturating_add(CHUNK_USERS));
            let insert = Table::insert(&mut connection, begin..end);
            self.within(PROVISION_TIMEOUT, insert).await?;
            begin = end;
        }
        Ok(())
    }

    async fn ask(
        &self,
        mut connection: Conn,
        users: &[String],
    ) -> mysql_async::Result<Vec<Option<String>>> {
        let answers = self.table.look_up(&mut connection, users).await?;
        self.idle.lock().push(connection);
        Ok(answers)
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = mysql_async::Result<T>>,
    ) -> Result<T, StoreError> {
        match timeout(limit, work).await {
            Ok(outcome) => outcome.map_err(|error| StoreError::from_mysql(&self.server, &error)),
            Err(_) => Err(StoreError::Unavailable(format!(
                "{} does not answer in time",
                self.server
            ))),
        }
    }
}

fn is_loss(error: &Error) -> bool {
    matches!(
        error,
        Error::Io(_) | Error::Driver(DriverError::ConnectionClosed)
    )
}
