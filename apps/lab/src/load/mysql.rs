//! Clients of a MySQL or MariaDB server, as tasks of one thread.

use std::{env, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};

use super::{LOGIN_VARIABLE, Load, LoadArgs, PATIENCE, schedule::Schedule};

/// Who logs in if nobody is named.
const LOGIN: &str = "mysql://root@127.0.0.1";
/// Any server knows it, with any rights.
const QUERY: &str = "SELECT 1";

/// Runs the clients to their end.
pub(super) fn run(args: &LoadArgs) -> Result<Load> {
    let login = env::var(LOGIN_VARIABLE).unwrap_or_else(|_| LOGIN.to_owned());
    let login = Opts::from_url(&login).context("the login is no mysql:// URL")?;
    let opts: Opts = OptsBuilder::from_opts(login)
        .ip_or_hostname(args.to.ip().to_string())
        .tcp_port(args.to.port())
        // A socket of the same machine would go around the proxy.
        .prefer_socket(false)
        .into();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the clients")?;
    let schedule = Arc::new(Schedule::new(args));
    runtime.block_on(async {
        let clients: Vec<_> = (0..args.clients)
            .map(|_| tokio::spawn(ask_all(schedule.clone(), opts.clone())))
            .collect();
        for client in clients {
            client.await.context("a client panicked")?;
        }
        anyhow::Ok(())
    })?;
    Ok(schedule.load())
}

async fn ask_all(schedule: Arc<Schedule>, opts: Opts) {
    let mut connection = None;
    while let Some(due) = schedule.next() {
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        match tokio::time::timeout(PATIENCE, ask(&mut connection, &opts)).await {
            Ok(Ok(())) => schedule.answered(due),
            Ok(Err(_)) | Err(_) => {
                connection = None;
                schedule.failed();
            }
        }
    }
    if let Some(connection) = connection {
        // All is answered; how it ends says nothing more.
        let _ = connection.disconnect().await;
    }
}

async fn ask(connection: &mut Option<Conn>, opts: &Opts) -> mysql_async::Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Conn::new(opts.clone()).await?),
    };
    connection.query_drop(QUERY).await
}
