//! How do I run a log server inside a program? `cargo run -p freeboard-logd --example log_server -- DIR 127.0.0.1:1514`
//!
//! Send it lines with `logger -n 127.0.0.1 -P 1514 -T hello`; it stops at the end of its standard input.

#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::{error::Error, io, time::Duration};

use freeboard::{
    System,
    net::poller::{Policy, Poller},
    stream::StreamOptions,
};
use freeboard_logd::{Config, InputConfig, Server, StreamSinkConfig, TcpConfig};

const WORKERS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name a directory")?.into();
    let address = arguments.next().ok_or("name an address")?.parse()?;
    let poller = Poller::new(WORKERS, Policy::default())?;
    let system = System::builder()
        .workers(WORKERS)
        .driver(poller.driver())
        .build()?;
    let options = StreamOptions::new();
    let config = Config {
        inputs: vec![InputConfig::Tcp(TcpConfig::new(address))],
        ..Config::new(vec![StreamSinkConfig { path, options }.sink("stream")])
    };
    let server = Server::start(&system, &poller, config)?;
    println!("{:?}", server.inputs());
    io::copy(&mut io::stdin(), &mut io::sink())?;
    let report = server.stop(Duration::from_secs(10));
    println!("{:?}, {report:?}", server.totals());
    system.shutdown(Duration::from_secs(5));
    Ok(())
}
