//! A proxy on loopback that cuts connections and answers 503.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

/// A connection is cut after so many bytes from the client.
const CUT_BYTES: usize = 1 << 20;

/// A proxy. It runs until the process ends.
pub(crate) struct FaultProxy {
    pub(crate) address: SocketAddr,
    pub(crate) faults: Arc<Faults>,
}

/// The faults that are still to come.
#[derive(Default)]
pub(crate) struct Faults {
    /// Connections that are cut in the middle of a request.
    pub(crate) cuts: AtomicU32,
    /// Connections whose first request is answered 503.
    pub(crate) unavailable: AtomicU32,
}

/// Takes one of a kind of faults.
fn take(faults: &AtomicU32) -> bool {
    let less = |count: u32| count.checked_sub(1);
    let taken = faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    taken.is_ok()
}

impl FaultProxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let faults = Arc::new(Faults::default());
        let given = faults.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let faults = given.clone();
                // A connection that breaks is what the tests are about.
                thread::spawn(move || drop(forward(client, server, &faults)));
            }
        });
        Self { address, faults }
    }
}

fn forward(mut client: TcpStream, server: SocketAddr, faults: &Faults) -> io::Result<()> {
    if take(&faults.unavailable) {
        return refuse(client);
    }
    let mut server = TcpStream::connect(server)?;
    let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut piece = vec![0; 64 << 10];
    let mut passed = 0;
    loop {
        let read = client.read(&mut piece)?;
        passed += read;
        if read == 0 || passed > CUT_BYTES && take(&faults.cuts) {
            server.shutdown(Shutdown::Both)?;
            return client.shutdown(Shutdown::Both);
        }
        server.write_all(&piece[..read])?;
    }
}

/// Answers 503 when the request is complete.
fn refuse(mut client: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let read = client.read(&mut piece)?;
        request.extend_from_slice(&piece[..read]);
        let Some(head) = request.windows(4).position(|it| it == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
        let length = text
            .lines()
            .find_map(|it| it.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |it| it.trim().parse().unwrap());
        if read == 0 || request.len() >= head + 4 + length {
            break;
        }
    }
    client.write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
