//! The same work on other runtimes: `peers <peer> <work> [--scale F]` prints one JSON line.
//!
//! ```text
//! {"peer":"tokio-mpsc","work":"fanin_2x2m","count":4000000,"seconds":0.123,"unit":"msg"}
//! ```
//!
//! Each peer checks its own result, and ends with an error if a message is missing. The time runs
//! from the first send to the last message handled; starting the runtime is not part of it. The
//! suite in `xtask` calls this once for each measurement, so that no run inherits another's heap.

#![forbid(unsafe_code)]
// This is a command-line tool: its result goes to the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bank;
mod countdown;
mod cpu_time;
mod fetch;
mod finish;
mod goodput;
mod http;
mod kvs;
mod listening;
mod log_file;
mod logd;
mod memory;
mod open_loop;
mod outcome;
mod proxy;
mod race;
mod readiness;
mod redis_load;
mod redis_stall;
mod ring;
mod runtimes;
mod senders;
mod server_process;
mod stopwatch;
mod streams;
mod tally;
mod watching;
mod work;
mod yield_mode;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use runtimes::Peer;
use work::{Scale, Work};

#[derive(Parser)]
#[command(name = "peers", about = "Measures one work on one peer")]
struct Arguments {
    /// The runtime or channel to measure
    peer: Peer,
    /// What it shall do
    work: Work,
    /// Do this share of the work only
    #[arg(long, default_value = "1")]
    scale: Scale,
    /// The server of a peer that is a program of its own, or `freeboard` for the works on a proxy and a log server
    #[arg(long)]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let program = arguments.program.as_deref();
    match runtimes::run(arguments.peer, arguments.work, arguments.scale, program) {
        Ok(outcome) => {
            println!("{}", outcome.line(arguments.peer.name(), arguments.work));
            // A million idle actors would otherwise be taken down one by one, which nobody measures.
            std::process::exit(0);
        }
        Err(error) => {
            eprintln!(
                "{} on {}: {error:#}",
                arguments.peer.name(),
                arguments.work.name()
            );
            ExitCode::FAILURE
        }
    }
}
