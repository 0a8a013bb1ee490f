//! How long a quiet client waits until its line is durable, alone and beside clients that send as fast as they can.
//!
//! `cargo run --release -p freeboard-logd --example quiet_client -- DIRECTORY SECONDS LOUD_CLIENTS`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use freeboard::{
    System,
    net::poller::{Policy, Poller},
    stream::StreamOptions,
};
use freeboard_logd::{Config, HttpConfig, InputConfig, Server, StreamSinkConfig, TcpConfig};

/// Between two lines of the quiet client.
const PAUSE: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().ok_or("name a directory")?;
    let seconds = arguments.next().map_or(Ok(1), |it| it.parse())?;
    let loud = arguments.next().map_or(Ok(1), |it| it.parse())?;

    let poller = Poller::new(2, Policy::default())?;
    let system = System::builder()
        .workers(2)
        .driver(poller.driver())
        .build()?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let stream = StreamSinkConfig {
        path: PathBuf::from(directory),
        options: StreamOptions::new(),
    };
    let config = Config {
        inputs: vec![
            InputConfig::Tcp(TcpConfig::new(any)),
            InputConfig::Http(HttpConfig::new(any)),
        ],
        ..Config::new(vec![stream.sink("stream")])
    };
    let server = Server::start(&system, &poller, config)?;
    let address = |input: usize| server.inputs()[input].address().ok_or("an address");
    let (tcp, http) = (address(0)?, address(1)?);
    for (name, loud) in [("alone", 0), ("beside a flood", loud)] {
        let is_over = AtomicBool::new(false);
        let before = (server.totals().taken, Instant::now());
        let times = thread::scope(|scope| {
            for _ in 0..loud {
                scope.spawn(|| flood(tcp, &is_over));
            }
            let times = quiet(http, Duration::from_secs(seconds));
            // Ordering: Relaxed: it only ends the flood.
            is_over.store(true, Ordering::Relaxed);
            times
        })?;
        let rate = (server.totals().taken - before.0) as f64 / before.1.elapsed().as_secs_f64();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "{name}: p50 {:?}, p99 {:?}, most {:?}; {rate:.0} lines/s in all",
            at(50),
            at(99),
            at(100)
        );
    }
    server.stop(Duration::from_secs(10));
    system.shutdown(Duration::from_secs(10));
    Ok(())
}

fn flood(address: SocketAddr, is_over: &AtomicBool) -> std::io::Result<()> {
    let lines = format!("<14>Nov 23 10:00:00 loud app: {}\n", "x".repeat(98)).repeat(512);
    let mut client = TcpStream::connect(address)?;
    while !is_over.load(Ordering::Relaxed) {
        client.write_all(lines.as_bytes())?;
    }
    Ok(())
}

/// The times from a request with one line to its answer, sorted.
fn quiet(address: SocketAddr, time: Duration) -> std::io::Result<Vec<Duration>> {
    let line = "<14>Nov 23 10:00:00 quiet app: text\n";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{line}",
        line.len()
    );
    let mut client = TcpStream::connect(address)?;
    client.set_nodelay(true)?;
    let mut answers = BufReader::new(client.try_clone()?).lines();
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let sent = Instant::now();
        client.write_all(request.as_bytes())?;
        for answer in answers.by_ref() {
            if answer?.starts_with("{\"accepted\":1,") {
                break;
            }
        }
        times.push(sent.elapsed());
        thread::sleep(PAUSE.saturating_sub(sent.elapsed()));
    }
    times.sort_unstable();
    Ok(times)
}
