//! A thread for each client, for protocols that need no more.

use std::{io, sync::Arc, thread, time::Instant};

use anyhow::{Context, Result};

use super::{Load, LoadArgs, schedule::Schedule};

/// A client that has one request at a time.
pub(super) trait Client: Send + 'static {
    /// Sends a request and reads its answer. After an error it connects anew.
    fn ask(&mut self) -> io::Result<()>;
}

/// Runs the clients to their end.
pub(super) fn run<C: Client>(args: &LoadArgs, client: impl Fn() -> C) -> Result<Load> {
    let schedule = Arc::new(Schedule::new(args));
    let clients: Vec<_> = (0..args.clients)
        .map(|_| {
            let (schedule, mut client) = (schedule.clone(), client());
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || ask_all(&schedule, &mut client))
        })
        .collect::<io::Result<_>>()
        .context("cannot start the clients")?;
    for client in clients {
        client.join().expect("a client does not panic");
    }
    Ok(schedule.load())
}

fn ask_all(schedule: &Schedule, client: &mut impl Client) {
    while let Some(due) = schedule.next() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        match client.ask() {
            Ok(()) => schedule.answered(due),
            Err(_) => schedule.failed(),
        }
    }
}
