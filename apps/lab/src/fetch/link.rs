//! A narrow link to Redis: a forwarder through which only so many bytes a second go.
//!
//! In the original the readers of the connections starved among spinning threads. On the machine at hand they
//! may not; the link brings about the same, commands that come faster than their replies, wherever it is run.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Bytes of a look-up on the wire, about: `GET fetch:user:user-123456`.
const LOOK_UP_BYTES: f64 = 40.0;
/// What is carried at once: some milliseconds' worth at the rates of the scene.
const PIECE: usize = 1 << 10;

/// Forwards until it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
}

/// When the next piece may go.
#[derive(Debug)]
struct Pace {
    bytes_per_s: f64,
    next: Mutex<Instant>,
}

impl Pace {
    /// Waits for the turn of so many bytes.
    fn take(&self, bytes: usize) {
        let until = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s);
            turn
        };
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

impl Link {
    /// Carries so many look-ups a second to `server`, over all connections together.
    ///
    /// # Errors
    /// If there is no port or no thread to be had.
    pub(super) fn start(server: SocketAddr, look_ups_per_s: f64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        let pace = Arc::new(Pace {
            bytes_per_s: look_ups_per_s * LOOK_UP_BYTES,
            next: Mutex::new(Instant::now()),
        });
        spawn(move || {
            for client in listener.incoming() {
                // Ordering: Relaxed: the connection that was made to say so comes after it.
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                // Who has lost its connection sees that.
                let _ = client.and_then(|client| carry(client, server, &pace));
            }
        })?;
        Ok(Self { address, is_closed })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Ordering: Relaxed, as above.
        self.is_closed.store(true, Ordering::Relaxed);
        // Wakes the accepting thread. Connections close with their owners.
        let _ = TcpStream::connect(self.address);
    }
}

fn carry(client: TcpStream, server: SocketAddr, pace: &Arc<Pace>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (from, to, pace) = (client.try_clone()?, server.try_clone()?, pace.clone());
    spawn(move || forward(from, to, |bytes| pace.take(bytes)))?;
    spawn(move || forward(server, client, |_| ()))
}

fn forward(mut from: TcpStream, mut to: TcpStream, wait: impl Fn(usize)) {
    let mut piece = [0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        wait(count);
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    // It may be closed already.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name("link".to_owned())
        .spawn(run)
        .map(drop)
}
