//! The `freeboard` binary: the laboratory's scenes, their report, and the stream tools.
//!
//! ```text
//!   cli ──▶ args ──▶ plans ──▶ run (one each) ──▶ findings ──▶ table, verdict, JSON, page
//!                                                          └──▶ the report of all scenes
//! ```

#![forbid(unsafe_code)]

mod balance;
mod board;
mod cli;
#[cfg(unix)]
mod cluster;
mod console;
mod eager;
mod fetch;
mod figures;
mod file_system;
mod findings;
mod flood;
mod goodput;
mod host;
mod interrupt;
mod load;
mod logs;
mod memory;
mod outputs;
mod page;
mod parse;
mod peers;
mod plot;
mod processor;
mod real_backends;
mod report;
mod ring;
mod scene;
mod section;
mod serve;
#[cfg(feature = "sim")]
mod sim;
mod spin;
mod stream;
mod streams;
mod table;
mod token;
mod top;
mod track;
mod usage;

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use clap::Parser;

use cli::{Cli, Command, Scene};
use interrupt::Interrupt;
use report::AllArgs;
use usage::Usage;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            let is_usage = error.downcast_ref::<Usage>().is_some();
            let is_unchecked = error.downcast_ref::<stream::Unchecked>().is_some();
            ExitCode::from(if is_usage || is_unchecked { 2 } else { 1 })
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let needs_no_board = match &cli.command {
        Some(Command::Board(_)) => true,
        #[cfg(feature = "sim")]
        Some(Command::Sim(_)) => true,
        Some(Command::Logd(args)) => args.is_check(),
        _ => false,
    };
    if !needs_no_board {
        cli.board.start()?;
    }
    match cli.command {
        None => report::show(&main_job()?, &interrupt),
        Some(Command::Lab(Scene::All(args))) => report::show(&args, &interrupt),
        Some(Command::Lab(Scene::Goodput(args))) => scene::show(&*args, &interrupt),
        #[cfg(unix)]
        Some(Command::Lab(Scene::Cluster(args))) => scene::show(&*args, &interrupt),
        #[cfg(unix)]
        Some(Command::ClusterNode(args)) => cluster::cluster_node(&args, &interrupt),
        Some(Command::Lab(Scene::Flood(args))) => flood::flood(&args, &interrupt),
        Some(Command::Lab(Scene::Balance(args))) => scene::show(&*args, &interrupt),
        Some(Command::Lab(Scene::Ring(args))) => scene::show(&*args, &interrupt),
        Some(Command::Lab(Scene::Streams(args))) => scene::show(&*args, &interrupt),
        Some(Command::Stream(tool)) => stream::run(&tool, &interrupt),
        Some(Command::Lab(Scene::Eager(args))) => scene::show(&*args, &interrupt),
        Some(Command::Lab(Scene::Fetch(args))) => scene::show(&*args, &interrupt),
        Some(Command::Load(args)) => load::load(&args),
        Some(Command::FetchLoad(args)) => fetch::fetch_load(&args, &interrupt),
        Some(Command::Echo(args)) => load::echo(&args),
        Some(Command::Board(args)) => board::board(&args, &cli.board, &interrupt),
        Some(Command::ServeHttp(args)) => serve::serve_http(&args, &interrupt),
        Some(Command::Fetcher(args)) => serve::fetcher(&args, &interrupt),
        Some(Command::Logd(args)) => serve::logd(&args, &interrupt),
        Some(Command::Logs(args)) => logs::logs(&args, &interrupt),
        #[cfg(feature = "sim")]
        Some(Command::Sim(command)) => sim::sim(&command, &interrupt),
        Some(Command::Top(args)) => top::top(&args, &interrupt),
        Some(Command::Proxy(args)) => serve::proxy(&args, &interrupt),
    }
}

/// What the bare command does: all scenes, and the report.
fn main_job() -> Result<AllArgs> {
    let cli = Cli::try_parse_from(["freeboard", "lab", "all"])?;
    match cli.command {
        Some(Command::Lab(Scene::All(args))) => Ok(args),
        _ => unreachable!("all scenes were asked for"),
    }
}
