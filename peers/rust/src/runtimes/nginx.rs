//! nginx: Debian's, two workers, the page from its configuration.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{
    cpu_time,
    http::{self, Connections},
    listening::{free_address, wait_until_it_listens},
    outcome::Outcome,
};

struct Nginx {
    child: Child,
    _folder: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // QUIT to the master ends the workers, too.
        let _ = Command::new("kill")
            .args(["-QUIT", &self.child.id().to_string()])
            .status();
        let _ = self.child.wait();
    }
}

pub fn run(connections: Connections, count: u64) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let address = free_address()?;
    let configuration = folder.path().join("nginx.conf");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(
        &configuration,
        format!(
            "worker_processes 2; daemon off; pid {}; error_log {};\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 100000000;\n\
             server {{ listen {address} backlog=1024; location / {{ default_type text/plain;\n\
             return 200 \"Hello world\\n\"; }} }} }}\n",
            at("pid"),
            at("errors"),
        ),
    )?;
    let child = Command::new("nginx")
        .arg("-c")
        .arg(&configuration)
        .arg("-e")
        .arg(at("errors"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("nginx cannot be started")?;
    let nginx = Nginx {
        child,
        _folder: folder,
    };
    wait_until_it_listens("nginx", address)?;
    http::ask(connections, count, address, || {
        cpu_seconds(nginx.child.id())
    })
}

/// The processor time of the workers, which are the master's children.
fn cpu_seconds(master: u32) -> Result<f64> {
    let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"))?;
    let of_each = children
        .split_whitespace()
        .map(|worker| cpu_time::of(worker.parse()?));
    of_each.sum()
}
