//! A server that sends back what it gets: the plainest backend of a proxy.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    thread,
};

use anyhow::{Context, Result};
use clap::Args;

use crate::console;

/// Knobs of the server.
#[derive(Debug, Clone, Args)]
pub(crate) struct EchoArgs {
    /// Listen here; port 0 takes any that is free
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Says its address, and serves until standard input ends.
pub(crate) fn echo(args: &EchoArgs) -> Result<ExitCode> {
    let listener = TcpListener::bind(args.listen).context("cannot listen")?;
    console::write_stdout(&format!("{}\n", listener.local_addr()?))
        .context("cannot write to standard output")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let started = thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || serve(stream));
            // Without a thread the connection is closed; its client says so.
            drop(started);
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).context("cannot read standard input")?;
    Ok(ExitCode::SUCCESS)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut piece = [0; 16 << 10];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&piece[..count])?;
    }
}
