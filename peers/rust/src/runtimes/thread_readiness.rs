//! A thread of the operating system for each connection, blocked in `read`, beside two that compute.
//!
//! It is what the machine itself takes: nothing stands between the kernel and the handler.

use std::io::Read;
use std::net::TcpListener;
use std::thread;

use anyhow::Result;

use crate::outcome::Outcome;
use crate::readiness::{self, CONNECTIONS_COUNT, LoadState, WORKERS_COUNT};

/// Some messages; one is the rule.
const READ_BYTES: usize = 4_096;

pub fn run(messages_count: u64) -> Result<Outcome> {
    let (state, load) = readiness::plan(messages_count);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || serve(&listener, &state));
    load.run(address, |computing| {
        for _ in 0..WORKERS_COUNT {
            let computing = computing.clone();
            thread::spawn(move || while computing.slice() {});
        }
        Ok(())
    })
}

fn serve(listener: &TcpListener, state: &LoadState) {
    for _ in 0..CONNECTIONS_COUNT {
        let (mut stream, _) = listener.accept().expect("the client connects");
        let mut reader = state.open();
        thread::spawn(move || {
            let mut bytes = [0; READ_BYTES];
            // The end of the client, in whatever way, is that of the work.
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                reader.take(&bytes[..count]);
            }
        });
    }
}
