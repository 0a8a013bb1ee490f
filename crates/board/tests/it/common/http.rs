//! Clients of a board on plain sockets, so that they can misbehave.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use freeboard_board::{Board, BoardOptions, Frame};

use super::{LIMIT, quiet_system};
use freeboard_actor::System;

/// A board on a free port, with a whole processor as its budget.
pub(crate) fn serve(options: BoardOptions) -> (Board, SocketAddr) {
    let address = "127.0.0.1:0".parse().unwrap();
    let board = options.share(1.0).serve(address).unwrap();
    let address = board.address().unwrap();
    (board, address)
}

/// A served board that watches a quiet system of this name.
pub(crate) fn watched(name: &str, options: BoardOptions) -> (System, Board, SocketAddr) {
    let system = quiet_system(name);
    let (board, address) = serve(options);
    board.watch(&system);
    (system, board, address)
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    /// A header's value; `name` in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// A refusal's text, which is one clear line.
    #[track_caller]
    pub(crate) fn line(&self) -> &str {
        let line = self.text().strip_suffix('\n').expect("it ends with a line");
        assert!(!line.is_empty() && line.len() < 400, "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
        line
    }
}

/// A connection to a board.
#[derive(Debug)]
pub(crate) struct Peer {
    address: SocketAddr,
    reader: BufReader<TcpStream>,
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // A read that takes longer fails the test.
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        Self {
            address,
            reader: BufReader::new(stream),
        }
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        self.reader.get_mut()
    }

    /// Sends a request, such as `GET /`, with further headers.
    pub(crate) fn ask(&mut self, what: &str, headers: &[&str]) {
        let mut request = format!("{what} HTTP/1.1\r\n");
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            request += &format!("Host: {}\r\n", self.address);
        }
        for header in headers {
            request += &format!("{header}\r\n");
        }
        request += "\r\n";
        // A refused connection may be closed before everything is sent.
        let _ = self.stream().write_all(request.as_bytes());
    }

    pub(crate) fn head(&mut self) -> io::Result<Head> {
        let mut line = || {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            match line.strip_suffix("\r\n") {
                Some(line) => Ok(line.to_owned()),
                None => Err(io::Error::from(ErrorKind::UnexpectedEof)),
            }
        };
        let first = line()?;
        let status = first.split(' ').nth(1).and_then(|it| it.parse().ok());
        let mut fields = Vec::new();
        loop {
            let line = line()?;
            let Some((name, value)) = line.split_once(": ") else {
                let status = status.unwrap_or_else(|| panic!("no answer: {first:?}"));
                return Ok(Head { status, fields });
            };
            fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        self.rest(head)
    }

    /// The rest of the answer with this head.
    pub(crate) fn rest(&mut self, head: Head) -> io::Result<Answer> {
        let mut body = Vec::new();
        if let Some(length) = head.field("content-length") {
            body.resize(length.parse().expect("a length"), 0);
            self.reader.read_exact(&mut body)?;
        } else if head.field("transfer-encoding") == Some("chunked") {
            while self.chunk(&mut body)? {}
        }
        Ok(Answer { head, body })
    }

    /// Reads a further chunk; false at the last one.
    fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        let mut size = String::new();
        self.reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim_end(), 16);
        let size = size.map_err(|_| io::Error::from(ErrorKind::UnexpectedEof))?;
        let before = body.len();
        body.resize(before + size + 2, 0);
        self.reader.read_exact(&mut body[before..])?;
        body.truncate(before + size);
        Ok(size > 0)
    }

    /// Whether the board has closed the connection; does not block.
    pub(crate) fn is_closed(&mut self) -> bool {
        let stream = self.stream();
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut [0; 1_024]);
        stream.set_nonblocking(false).unwrap();
        match read {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Sends a request on its own connection.
#[track_caller]
pub(crate) fn ask(address: SocketAddr, what: &str, headers: &[&str]) -> Answer {
    let mut peer = Peer::connect(address);
    peer.ask(what, headers);
    peer.answer().unwrap()
}

#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path}"), &[])
}

/// A client of the event stream.
#[derive(Debug)]
pub(crate) struct Viewer {
    peer: Peer,
    /// Bytes of the next event.
    text: Vec<u8>,
}

impl Viewer {
    /// Opens the stream; returns the answer if it is refused.
    pub(crate) fn open(address: SocketAddr, parameters: &str) -> Result<Self, Answer> {
        let mut peer = Peer::connect(address);
        peer.ask(&format!("GET /events?{parameters}"), &[]);
        let head = peer.head().unwrap();
        if head.status == 200 {
            assert_eq!(head.field("content-type"), Some("text/event-stream"));
            return Ok(Self::of(peer));
        }
        Err(peer.rest(head).unwrap())
    }

    /// A viewer on an accepted connection.
    pub(crate) fn of(peer: Peer) -> Self {
        let text = Vec::new();
        Self { peer, text }
    }

    /// The next frame; `None` if the board has closed the stream.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                let event = std::str::from_utf8(&event).expect("text");
                let data = event.trim_end().strip_prefix("event: frame\ndata: ");
                let data = data.expect("one frame in one line");
                return Some(serde_json::from_str(data).expect("a frame"));
            }
            match self.peer.chunk(&mut self.text) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    let kind = error.kind();
                    let is_late = matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    assert!(!is_late, "no frame in time");
                    return None;
                }
            }
        }
    }

    /// Waits for a frame that fulfils the condition.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&Frame) -> bool) -> Frame {
        let deadline = Instant::now() + LIMIT;
        loop {
            let frame = self.next().expect("the board goes on");
            if holds(&frame) {
                return frame;
            }
            assert!(Instant::now() < deadline, "not in time: {what}: {frame:?}");
        }
    }
}
