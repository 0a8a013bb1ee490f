//! A client that wants back what it sends.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

use super::{http::connect, threads};

/// Bytes of a request.
const SIZE: usize = 64;

/// A client that keeps its connection.
pub(super) struct Client {
    to: SocketAddr,
    stream: Option<TcpStream>,
    asked: u64,
}

impl Client {
    pub(super) fn new(to: SocketAddr) -> Self {
        Self {
            to,
            stream: None,
            asked: 0,
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
        self.asked += 1;
        let mut request = [b'.'; SIZE];
        request[..8].copy_from_slice(&self.asked.to_le_bytes());
        stream.write_all(&request)?;
        let mut answer = [0; SIZE];
        stream.read_exact(&mut answer)?;
        if answer != request {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.stream = Some(stream);
        Ok(())
    }
}
