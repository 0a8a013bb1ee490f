//! haproxy: Debian's, two threads, in TCP mode.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    cpu_time,
    listening::{free_address, wait_until_it_listens},
    outcome::Outcome,
    proxy::{Bed, THREADS_COUNT},
};

struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run(bed: &Bed) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let configuration = folder.path().join("haproxy.cfg");
    let address = free_address()?;
    let backend = bed.backend();
    // The times are those of our own proxy.
    fs::write(
        &configuration,
        format!(
            "global\n  nbthread {THREADS_COUNT}\n  maxconn 4096\n\
             defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 5m\n  timeout server 5m\n\
             listen proxy\n  bind {address} backlog 1024\n  server backend {backend}\n"
        ),
    )?;
    // In the foreground, and a single process: its workers are threads.
    let child = Command::new("haproxy")
        .args(["-db", "-f"])
        .arg(&configuration)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("haproxy cannot be started")?;
    let haproxy = Haproxy(child);
    wait_until_it_listens("haproxy", address)?;
    bed.ask_through(address, || cpu_time::of(haproxy.0.id()))
}
