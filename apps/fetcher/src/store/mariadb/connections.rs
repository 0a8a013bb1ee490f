//! The connections that questions share.
//!
//! Not the library's own pool: a question that is given up at its deadline leaves its reply on the way, and
//! the pool would hand that connection, with the reply, to the next one. Here a connection that has not
//! answered is closed.

use std::{mem, time::Duration};

use mysql_async::{Conn, DriverError, Error, Opts};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};

use super::{super::StoreError, address, table::Table};

/// The users that one transaction puts in.
const CHUNK_USERS: u64 = 250_000;

/// How long each of these may take.
const PROVISION_TIMEOUT: Duration = Duration::from_secs(60);

/// A bounded number of connections.
pub(super) struct Connections {
    opts: Opts,
    address: String,
    table: Table,
    question_timeout: Duration,
    permits: Semaphore,
    /// At most as many as there are places.
    idle: Mutex<Vec<Conn>>,
}

impl Connections {
    pub(super) fn new(
        opts: Opts,
        first: Conn,
        connections_max: u16,
        question_timeout: Duration,
    ) -> Self {
        Self {
            address: address(&opts),
            opts,
            table: Table::new(),
            question_timeout,
            permits: Semaphore::new(connections_max.into()),
            idle: Mutex::new(vec![first]),
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The devices of these users, in their order.
    pub(super) async fn look_up(
        &self,
        users: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        self.within(self.question_timeout, async {
            let _permit = self.permits.acquire().await.expect("it is never closed");
            let idle = self.idle.lock().pop();
            if let Some(connection) = idle {
                match self.ask(connection, users).await {
                    // It was lost while nobody used it, as the others probably were.
                    Err(error) if is_loss(&error) => drop(mem::take(&mut *self.idle.lock())),
                    outcome => return outcome,
                }
            }
            self.ask(Conn::new(self.opts.clone()).await?, users).await
        })
        .await
    }

    /// Puts the users in that are to be there.
    pub(super) async fn provision(&self, users: u64) -> Result<(), StoreError> {
        let mut connection = self
            .within(self.question_timeout, Conn::new(self.opts.clone()))
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
            Ok(outcome) => outcome.map_err(|error| StoreError::from_mysql(&self.address, &error)),
            Err(_) => Err(StoreError::Unavailable(format!(
                "MariaDB at {} does not answer in time",
                self.address
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
