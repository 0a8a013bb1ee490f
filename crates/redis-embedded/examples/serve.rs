//! Runs a server until Ctrl-C, for `redis-cli` and `redis-benchmark`.
//!
//! ```text
//!   cargo run --release -p freeboard-redis-embedded --example serve -- --port 6390
//! ```
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::thread;

use clap::Parser;
use freeboard_actor::System;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis_embedded::{EmbeddedOptions, Password, RedisEmbedded};

#[derive(Parser)]
struct Arguments {
    /// 0 means any free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The password of clients [default: none]
    #[arg(long)]
    password: Option<String>,
    #[arg(long, default_value_t = 2)]
    workers: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let poller = Poller::new(arguments.workers, Policy::default())?;
    let system = System::builder()
        .workers(arguments.workers)
        .driver(poller.driver())
        .build()?;
    let options = EmbeddedOptions {
        port: arguments.port,
        password: arguments.password.map_or(Password::None, Password::Is),
        ..EmbeddedOptions::default()
    };
    let server = RedisEmbedded::start(&system, &poller, options)?;
    println!("{}", server.address());
    loop {
        thread::park();
    }
}
