//! A client of HTTP.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

use super::{PATIENCE, threads};

/// The servers of the scenes answer with less.
const ANSWER_BYTES: u64 = 1 << 20;

/// A client that asks for a page.
pub(super) struct Client {
    to: SocketAddr,
    keep_alive: bool,
    stream: Option<TcpStream>,
}

impl Client {
    pub(super) fn new(to: SocketAddr, keep_alive: bool) -> Self {
        Self {
            to,
            keep_alive,
            stream: None,
        }
    }
}

impl threads::Client for Client {
    fn ask(&mut self) -> io::Result<()> {
        // Kept only if all goes well.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.to)?,
        };
        if self.keep_alive {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: freeboard\r\n\r\n")?;
            read_answer(&mut stream)?;
            self.stream = Some(stream);
            return Ok(());
        }
        stream.write_all(b"GET / HTTP/1.0\r\nHost: freeboard\r\n\r\n")?;
        let mut answer = Vec::with_capacity(512);
        stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
        if answer.starts_with(b"HTTP/1.1 200 ") {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

/// A connection whose reads do not wait for ever.
pub(super) fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads one answer that says how long it is.
fn read_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = Vec::with_capacity(512);
    let mut piece = [0; 4_096];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&piece[..count]);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            if answer.len() as u64 > ANSWER_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            continue;
        };
        let head = String::from_utf8_lossy(&answer[..end]);
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse::<usize>().ok());
        let is_ok = head.starts_with("HTTP/1.1 200 ");
        match length {
            Some(length) if length as u64 > ANSWER_BYTES => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Some(length) if answer.len() < end + 4 + length => {}
            Some(_) if is_ok => return Ok(()),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
