//! A TCP proxy between a process and the NATS server, which can be cut: then nothing passes, and no connection ends.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

/// What one direction of a connection holds at the most.
const BUFFER: usize = 64 << 10;

#[derive(Default)]
struct Gate {
    is_cut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let is_cut = self.is_cut.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = self.changed.wait_while(is_cut, |is_cut| *is_cut);
        drop(passed);
    }
}

/// The proxy of one process. Its threads end with the connections, and the listening one with this process.
pub(super) struct Link {
    address: SocketAddr,
    gate: Arc<Gate>,
}

impl Link {
    /// Listens on loopback.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn start(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let gate = Arc::new(Gate::default());
        let passing = gate.clone();
        let accept = move || {
            for stream in listener.incoming() {
                // A client that goes at once is no reason to end.
                let _ = stream.and_then(|stream| carry(stream, to, &passing));
            }
        };
        thread::Builder::new()
            .name("link".to_owned())
            .spawn(accept)?;
        Ok(Self { address, gate })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing pass, or everything.
    pub(super) fn cut(&self, is_cut: bool) {
        *self
            .gate
            .is_cut
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.gate.changed.notify_all();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut(false);
    }
}

fn carry(client: TcpStream, to: SocketAddr, gate: &Arc<Gate>) -> io::Result<()> {
    let server = TcpStream::connect(to)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ways = [(client.try_clone()?, server.try_clone()?), (server, client)];
    for (mut from, mut to) in ways {
        let gate = gate.clone();
        let copy = move || {
            let mut buffer = vec![0; BUFFER];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                gate.pass();
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            for stream in [&from, &to] {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        };
        thread::Builder::new().name("link".to_owned()).spawn(copy)?;
    }
    Ok(())
}
