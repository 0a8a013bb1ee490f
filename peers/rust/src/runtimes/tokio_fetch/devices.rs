//! The devices of users, one question for each.

use std::sync::Arc;

use anyhow::{Context, Result};
use freeboard_fetcher::store::Directory;
use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use tokio::sync::oneshot;

/// As many connections as ours has.
const CONNECTIONS_MAX: usize = 8;
const QUESTION: &str = "SELECT device FROM devices WHERE user = ?";

pub enum Devices {
    Embedded(Arc<dyn Directory>),
    MariaDb(Pool),
}

impl Devices {
    pub fn mariadb(url: &str) -> Result<Self> {
        let constraints =
            PoolConstraints::new(1, CONNECTIONS_MAX).context("one is no more than all")?;
        // A reset would have each question prepared anew.
        let pool = PoolOpts::default()
            .with_constraints(constraints)
            .with_reset_connection(false);
        let opts = OptsBuilder::from_opts(Opts::from_url(url)?)
            .prefer_socket(false)
            .pool_opts(pool);
        Ok(Self::MariaDb(Pool::new(opts)))
    }

    pub async fn of_user(&self, user: &str) -> Result<Option<String>> {
        match self {
            Self::Embedded(directory) => {
                let (sender, answered) = oneshot::channel();
                let on_outcome = move |outcome| {
                    // Who asked may have gone.
                    let _ = sender.send(outcome);
                };
                directory.look_up(vec![user.to_owned()], Box::new(on_outcome));
                let devices: Vec<Option<String>> = answered.await??;
                Ok(devices.into_iter().next().flatten())
            }
            Self::MariaDb(pool) => {
                let mut connection = pool.get_conn().await?;
                Ok(connection.exec_first(QUESTION, (user,)).await?)
            }
        }
    }
}
