//! A server with scripted answers, one connection after the other.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The time limit for a request and for the end of a connection.
const WAIT: Duration = Duration::from_secs(10);

/// The answer to one connection.
#[derive(Clone)]
pub(crate) enum Act {
    /// Answers the first request with these bytes and closes.
    Say(Vec<u8>),
    /// Reads the request and sends nothing until the client closes.
    Keep,
    /// Closes at once.
    Hang,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Each request's lines.
    pub(crate) requests: Receiver<Vec<String>>,
}

impl Server {
    /// Performs one act for each connection; refuses further ones.
    pub(crate) fn start(acts: Vec<Act>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), acts)
    }

    pub(crate) fn on(listener: TcpListener, acts: Vec<Act>) -> Self {
        let address = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        thread::spawn(move || {
            for act in acts {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                stream.set_read_timeout(Some(WAIT)).unwrap();
                if matches!(act, Act::Hang) {
                    continue;
                }
                let _ = sender.send(request(&stream));
                match act {
                    Act::Say(bytes) => {
                        // The client may have closed.
                        let _ = (&stream).write_all(&bytes);
                    }
                    _ => {
                        let _ = std::io::copy(&mut &stream, &mut std::io::sink());
                    }
                }
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn request(stream: &TcpStream) -> Vec<String> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// A whole answer.
pub(crate) fn answer(status: &str, body: &str) -> Act {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    Act::Say(head.into_bytes())
}
