//! A server in a process of its own, and a client that waits for each reply.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use freeboard::redis::protocol::{Limits, Parser, Value};

/// A store that serves a directory. Dropped, it is killed like `kill -9`.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Its first line: the recovery.
    pub(crate) line: String,
}

impl Server {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kvs"))
            .arg(directory)
            .args(["--listen", "127.0.0.1:0", "--segment-bytes", "65536"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ");
        let address = address.and_then(|rest| rest.split_once(',')?.0.parse().ok());
        Self {
            address: address.unwrap_or_else(|| panic!("no address in {line:?}")),
            process,
            line,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Has it end in order.
    pub(crate) fn terminate(mut self) {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status();
        assert!(status.unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) struct Client {
    socket: BufReader<TcpStream>,
    parser: Parser,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self {
            socket: BufReader::new(socket),
            parser: Parser::new(Limits::default()),
        })
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.socket.get_mut().write_all(request.as_bytes())
    }

    pub(crate) fn receive(&mut self) -> io::Result<Value> {
        loop {
            let mut unread = self.socket.fill_buf()?;
            let bytes = unread.len();
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let value = self.parser.next(&mut unread);
            let parsed = bytes - unread.len();
            self.socket.consume(parsed);
            if let Some(value) = value.map_err(io::Error::other)? {
                return Ok(value);
            }
        }
    }

    pub(crate) fn call(&mut self, words: &[&str]) -> io::Result<Value> {
        self.send(words)?;
        self.receive()
    }
}

pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        Value::Null => None,
        other => panic!("neither a string nor null: {other:?}"),
    }
}
