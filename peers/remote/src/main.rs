//! Messages between two processes: `peers-remote PEER WORK [--scale F]` prints one JSON line.
//!
//! ```text
//!                   ┌── starts, reads processor time and memory of each ──┐
//!   stage ──"go"──▶ sender ══ messages over loopback ══▶ receiver ◀──"report", "drain"── stage
//!                      └────────▶ nats-server ───────────────┘
//! ```
//!
//! Sender and receiver are processes of their own, of this program or, for the BEAM, of `erl`. They take commands from
//! their standard input, a line each, and answer in JSON. They exit when it is closed.

#![forbid(unsafe_code)]
// This is a command-line tool: its result goes to the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod async_nats_peer;
mod beam;
mod broker;
mod freeboard_peer;
mod kameo_peer;
mod peer;
mod process;
mod ractor_peer;
mod receiver;
mod sender;
mod stage;
mod tonic_peer;
mod work;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::{
    peer::Peer,
    work::{Scale, Work},
};

#[derive(Parser)]
#[command(
    name = "peers-remote",
    about = "Measures one work between two processes"
)]
struct Arguments {
    /// The library to measure
    peer: Peer,
    /// What it shall do
    work: Work,
    /// Do this share of the work only
    #[arg(long, default_value = "1")]
    scale: Scale,
    /// The folder of the compiled modules of `peers/beam`
    #[arg(long)]
    modules: Option<PathBuf>,
    /// Be one of the two processes
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// The address of the server, or of the receiver
    #[arg(long, hide = true, default_value = "")]
    at: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    Receiver,
    Sender,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        // What still waits in a queue would be taken down first, which nobody measures.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            let role = arguments.role.map(|role| format!("{role:?}: "));
            eprintln!("{}{error:#}", role.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let (peer, work) = (arguments.peer, arguments.work);
    match arguments.role {
        Some(Role::Receiver) => receiver::run(peer, work, &arguments.at),
        Some(Role::Sender) => sender::run(peer, work, arguments.scale, &arguments.at),
        None => {
            let modules = arguments.modules.as_deref();
            let line = stage::measure(peer, work, arguments.scale, modules)?;
            println!("{line}");
            Ok(())
        }
    }
}
