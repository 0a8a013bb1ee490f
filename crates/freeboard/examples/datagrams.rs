//! How does an actor receive datagrams, and how are the dropped ones counted? UDP and a Unix socket.
//!
//! ```console
//! cargo run -p freeboard --features net --example datagrams
//! ```

use std::{
    error::Error,
    net::UdpSocket,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use freeboard::net::datagram::{DatagramOptions, DatagramSocket, Received};
use freeboard::net::poller::{Policy, Poller};
use freeboard::net::{UnixOptions, tcp::ReadCredit};
use freeboard::prelude::*;

const WORKERS: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Prints what it gets.
struct Printer;

impl Actor for Printer {}

impl Handler<Received> for Printer {
    type Reply = ();
    fn handle(&mut self, received: Received, _: &mut Context<Self>) {
        // All of one system call, at most 32 by default.
        for datagram in received.datagrams {
            let text = String::from_utf8_lossy(&datagram.bytes);
            println!("{text:?} from {}", datagram.from);
        }
        // The next call may read. Without credit the kernel's buffer fills up.
        let _ = received.socket.tell(ReadCredit(1));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let poller = Poller::new(WORKERS, Policy::default())?;
    let builder = System::builder().workers(WORKERS);
    let system = builder.driver(poller.driver()).build()?;
    let printer = system.spawn_once(SpawnOptions::new(), Printer)?;
    let options = DatagramOptions {
        receive_buffer_bytes: Some(1 << 20), // so that short bursts are not dropped
        ..DatagramOptions::default()
    };

    let any_port = ([127, 0, 0, 1], 0).into();
    let udp = DatagramSocket::bind_udp(&system, &poller, any_port, options, printer.recipient())?;
    UdpSocket::bind(any_port)?.send_to(b"hello", udp.address())?;

    let path = std::env::temp_dir().join(format!("datagrams-{}", std::process::id()));
    let unix = UnixOptions { mode: Some(0o666) }; // every user may write, as to /dev/log
    let local =
        DatagramSocket::bind_unix(&system, &poller, &path, unix, options, printer.recipient())?;
    UnixDatagram::unbound()?.send_to(b"hello, too", &path)?;

    let deadline = Instant::now() + TIMEOUT;
    while udp.snapshot().received + local.snapshot().received < 2 {
        assert!(Instant::now() < deadline, "both arrive");
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("the kernel dropped {}", udp.snapshot().kernel_dropped);
    assert!(system.shutdown(TIMEOUT).is_clean());
    assert!(!path.exists(), "the socket's file is removed");
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
