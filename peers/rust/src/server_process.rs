//! A server in a process of its own, which this one starts.
//!
//! ```text
//!   it ──► first line: its address      it ◄── the end of its standard input: end
//! ```

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

/// Dropping it ends the server.
pub struct ServerProcess {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl ServerProcess {
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let output = child.stdout.take().context("its output is a pipe")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().parse().context("the server says no address")?;
        Ok(Self {
            child,
            output,
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it says after its address.
    pub fn output(&mut self) -> &mut impl BufRead {
        &mut self.output
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Its input ends, and so it does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
