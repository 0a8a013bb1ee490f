//! A server whose every move is scripted: plain sockets and threads on loopback.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use freeboard_redis::protocol::{Limits, Parser, Value};

/// A door that threads wait at until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn wait(&self) {
        let (is_open, opened) = &*self.0;
        let mut is_open = is_open.lock().unwrap();
        while !*is_open {
            is_open = opened.wait(is_open).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        let (is_open, opened) = &*self.0;
        *is_open.lock().unwrap() = true;
        opened.notify_all();
    }
}

pub(crate) struct Fake {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    is_over: AtomicBool,
    /// The last argument of each command but greetings.
    seen: Mutex<Vec<Bytes>>,
}

/// One connection, at the server's end.
pub(crate) struct Peer {
    stream: TcpStream,
    parser: Parser,
    input: Vec<u8>,
    shared: Arc<Shared>,
}

impl Fake {
    /// Serves each connection, by its number, on a thread of its own.
    pub(crate) fn start(serve: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        Self::start_on(0, serve)
    }

    pub(crate) fn start_on(
        port: u16,
        serve: impl Fn(usize, &mut Peer) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let (serve, to_connections) = (Arc::new(serve), shared.clone());
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (serve, shared) = (serve.clone(), to_connections.clone());
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let mut peer = Peer {
                    stream,
                    parser: Parser::new(Limits::default()),
                    input: Vec::new(),
                    shared,
                };
                thread::spawn(move || serve(number, &mut peer));
            }
        });
        Self { port, shared }
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The last argument of each command that came.
    pub(crate) fn seen(&self) -> Vec<Bytes> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Whoever accepts looks then.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Peer {
    /// The next command, `None` once the client has gone.
    pub(crate) fn command(&mut self) -> Option<Vec<Bytes>> {
        loop {
            let mut rest = &self.input[..];
            let value = self.parser.next(&mut rest).unwrap();
            self.input = rest.to_vec();
            if let Some(Value::Array(parts)) = value {
                let bytes = |part| match part {
                    Value::Bulk(bytes) => bytes,
                    other => panic!("a command has {}", other.kind()),
                };
                let parts: Vec<Bytes> = parts.into_iter().map(bytes).collect();
                if parts[0] != "HELLO" {
                    let last = parts.last().unwrap().clone();
                    self.shared.seen.lock().unwrap().push(last);
                }
                return Some(parts);
            }
            let mut piece = vec![0; 64 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Answers the greeting.
    pub(crate) fn hello(&mut self) {
        if let Some(command) = self.command() {
            assert_eq!(command[0], "HELLO");
            self.write(b"%1\r\n$6\r\nserver\r\n$4\r\nfake\r\n");
        }
    }

    /// Answers each command with its last argument, until the client has gone.
    pub(crate) fn echo_all(&mut self) {
        while let Some(command) = self.command() {
            self.write(&bulk(command.last().unwrap()));
        }
    }

    /// Reads so many commands and answers none.
    pub(crate) fn swallow(&mut self, commands: usize) {
        for _ in 0..commands {
            self.command();
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // A client that has gone meanwhile is what some tests want.
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) {
        let _ = self.stream.shutdown(how);
    }
}

pub(crate) fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut reply = format!("${}\r\n", bytes.len()).into_bytes();
    reply.extend_from_slice(bytes);
    reply.extend_from_slice(b"\r\n");
    reply
}
