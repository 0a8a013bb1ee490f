//! The loader: numbered lines from prebuilt buffers.
//!
//! ```text
//!   <14>Nov 23 10:00:00 localhost load[1]: ...... at=1795437035000000000 sender=00042 message=0000001234
//!   └──────────── LINE_BYTES, the line end included; only the digits change ─────────────┘
//! ```

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

/// Bytes of each line on the wire; a datagram has no line end.
pub const LINE_BYTES: usize = 128;
/// Lines that are sent with one call on a connection, or with one request.
const BLOCK_LINES: u64 = 512;
/// Lines that are sent with one call as datagrams.
const DATAGRAMS: usize = 64;
/// Senders have smaller numbers than this, except the quiet one, which has this.
pub const LOUD_SENDERS_MAX: usize = 1_000;
const HEAD: &[u8] = b"<14>Nov 23 10:00:00 localhost load[1]: ";
/// Where the digits are, counted from the end of the text.
const AT: &[u8] = b" at=";
const AT_DIGITS: usize = 19;
const SENDER: &[u8] = b" sender=";
const SENDER_DIGITS: usize = 5;
const MESSAGE: &[u8] = b" message=";
const MESSAGE_DIGITS: usize = 10;
const TAIL_BYTES: usize =
    AT.len() + AT_DIGITS + SENDER.len() + SENDER_DIGITS + MESSAGE.len() + MESSAGE_DIGITS;

/// The longest time that is told apart.
const TIME_NS_MAX: u64 = 600_000_000_000;

/// How lines get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
    /// A Unix datagram socket, as /dev/log is.
    Unix,
    UnixStream,
    /// A connection has one request at a time: `POST /` with lines, answered when they are durable.
    Http,
}

impl Transport {
    pub fn is_unix(self) -> bool {
        matches!(self, Self::Unix | Self::UnixStream)
    }
}

/// Where a server takes lines.
#[derive(Clone, Debug)]
pub struct Target {
    pub transport: Transport,
    /// Of TCP, UDP and HTTP.
    pub address: SocketAddr,
    /// Of a Unix socket.
    pub path: PathBuf,
}

/// What a line says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub sender: u32,
    pub message: u64,
    /// When it was due, in nanoseconds since 1970; 0 if that was not noted.
    pub at_ns: u64,
}

impl Numbered {
    /// Of a line that a server has written, whatever it put in front.
    pub fn of(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii_end();
        let rest = &line[line.len().checked_sub(TAIL_BYTES)?..];
        let (at_ns, rest) = take(rest, AT, AT_DIGITS)?;
        let (sender, rest) = take(rest, SENDER, SENDER_DIGITS)?;
        let (message, _) = take(rest, MESSAGE, MESSAGE_DIGITS)?;
        Some(Self {
            sender: u32::try_from(sender).ok()?,
            message,
            at_ns,
        })
    }
}

fn take<'a>(text: &'a [u8], label: &[u8], digits: usize) -> Option<(u64, &'a [u8])> {
    let rest = text.strip_prefix(label)?;
    let (number, rest) = rest.split_at_checked(digits)?;
    let number = number.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some((number, rest))
}

fn put(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Times in nanoseconds.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, 3).expect("the bounds are valid")
}

/// One sender with its connection.
pub struct Sender {
    link: Link,
    /// Lines whose digits alone change.
    block: Vec<u8>,
    next: u64,
    /// Of HTTP: from when the lines of a request were due, or sent if that was not noted, to the answer.
    pub answered: Histogram<u64>,
}

enum Link {
    Stream(Box<dyn Write + Send>),
    Datagrams(OwnedFd),
    Http(BufReader<TcpStream>),
}

impl Sender {
    pub fn connect(target: &Target, number: u32) -> Result<Self> {
        let link = match target.transport {
            Transport::Tcp => Link::Stream(Box::new(TcpStream::connect(target.address)?)),
            Transport::UnixStream => Link::Stream(Box::new(UnixStream::connect(&target.path)?)),
            Transport::Http => {
                let stream = TcpStream::connect(target.address)?;
                stream.set_nodelay(true)?;
                Link::Http(BufReader::new(stream))
            }
            Transport::Udp => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                socket.connect(target.address)?;
                Link::Datagrams(socket.into())
            }
            Transport::Unix => {
                let socket = UnixDatagram::unbound()?;
                let connected = socket.connect(&target.path);
                connected.with_context(|| format!("{} takes no lines", target.path.display()))?;
                Link::Datagrams(socket.into())
            }
        };
        let mut line = HEAD.to_vec();
        line.resize(LINE_BYTES - 1 - TAIL_BYTES, b'.');
        let mut digits = [b'0'; AT_DIGITS];
        line.extend_from_slice(AT);
        line.extend_from_slice(&digits);
        put(&mut digits[..SENDER_DIGITS], u64::from(number));
        line.extend_from_slice(SENDER);
        line.extend_from_slice(&digits[..SENDER_DIGITS]);
        line.extend_from_slice(MESSAGE);
        line.extend_from_slice(&[b'0'; MESSAGE_DIGITS]);
        line.push(b'\n');
        Ok(Self {
            link,
            block: line.repeat(BLOCK_LINES as usize),
            next: 0,
            answered: times(),
        })
    }

    /// The lines so far.
    pub fn sent(&self) -> u64 {
        self.next
    }

    /// Sends `count` lines as fast as they are taken.
    pub fn send_all(&mut self, count: u64) -> Result<()> {
        let end = self.next + count;
        while self.next < end {
            self.send((end - self.next).min(BLOCK_LINES) as usize, 0)?;
        }
        Ok(())
    }

    /// Sends lines at this rate, each millisecond those that are due, over HTTP each ten; lines say when that was. Lines
    /// that the server has not taken at the end of the time are not sent.
    pub fn send_paced(&mut self, lines_per_second: u64, time: Duration) -> Result<()> {
        let (begun, begun_ns) = (Instant::now(), now_ns());
        let ticks_per_second = if let Link::Http(_) = self.link {
            100
        } else {
            1_000
        };
        let per_tick = (lines_per_second / ticks_per_second).max(1);
        let tick = Duration::from_nanos(1_000_000_000 * per_tick / lines_per_second);
        let ticks = (time.as_nanos() / tick.as_nanos()) as u32;
        for number in 0..ticks {
            let due = tick * number;
            thread::sleep(due.saturating_sub(begun.elapsed()));
            if begun.elapsed() > time {
                break;
            }
            let at_ns = begun_ns + due.as_nanos() as u64;
            let mut left = per_tick;
            while left > 0 {
                let lines = left.min(BLOCK_LINES);
                self.send(lines as usize, at_ns)?;
                left -= lines;
            }
        }
        Ok(())
    }

    fn send(&mut self, lines: usize, at_ns: u64) -> Result<()> {
        let block = &mut self.block[..lines * LINE_BYTES];
        for line in block.chunks_exact_mut(LINE_BYTES) {
            let text = &mut line[..LINE_BYTES - 1];
            put(&mut text[LINE_BYTES - 1 - MESSAGE_DIGITS..], self.next);
            if at_ns > 0 {
                let at = LINE_BYTES - 1 - TAIL_BYTES + AT.len();
                put(&mut text[at..at + AT_DIGITS], at_ns);
            }
            self.next += 1;
        }
        match &mut self.link {
            Link::Stream(stream) => stream.write_all(block)?,
            Link::Http(connection) => {
                let begun_ns = if at_ns > 0 { at_ns } else { now_ns() };
                post(connection, block)?;
                let time = now_ns().saturating_sub(begun_ns);
                self.answered.saturating_record(time);
            }
            Link::Datagrams(socket) => {
                for piece in block.chunks(DATAGRAMS * LINE_BYTES) {
                    send_datagrams(socket, piece)?;
                }
            }
        }
        Ok(())
    }
}

/// Sends a request with this body, and reads its answer.
fn post(connection: &mut BufReader<TcpStream>, body: &[u8]) -> Result<()> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let stream = connection.get_mut();
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let (mut line, mut is_ok, mut rest) = (String::new(), false, 0);
    while connection.read_line(&mut line)? > 2 {
        is_ok |= line.starts_with("HTTP/1.1 200 ");
        let lower = line.to_ascii_lowercase();
        if let Some(length) = lower.strip_prefix("content-length:") {
            rest = length.trim().parse()?;
        }
        line.clear();
    }
    let mut answer = vec![0; rest];
    connection.read_exact(&mut answer)?;
    ensure!(is_ok, "refused: {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Sends each line of the piece as a datagram; waits where the receiver has no capacity and the protocol says so.
fn send_datagrams(socket: &OwnedFd, piece: &[u8]) -> Result<()> {
    let texts: Vec<[IoSlice<'_>; 1]> = piece
        .chunks_exact(LINE_BYTES)
        .map(|line| [IoSlice::new(&line[..LINE_BYTES - 1])])
        .collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = texts
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let mut messages: Vec<MMsgHdr<'_>> = texts
        .iter()
        .zip(&mut controls)
        .map(|(text, control)| MMsgHdr::new(text, control))
        .collect();
    let mut sent = 0;
    while sent < messages.len() {
        sent += sendmmsg(socket, &mut messages[sent..], SendFlags::empty())
            .context("a datagram was refused")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn each_line_has_its_number_and_length() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target {
            transport: Transport::Tcp,
            address: listener.local_addr().unwrap(),
            path: PathBuf::new(),
        };
        let mut sender = Sender::connect(&target, 42).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            accepted.read_to_end(&mut text).map(|_| text).unwrap()
        });
        sender.send_all(BLOCK_LINES + 3).unwrap();
        sender.send(1, 1_795_437_035_000_000_000).unwrap();
        drop(sender);
        let text = reader.join().unwrap();
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        assert!(lines.iter().all(|line| line.len() == LINE_BYTES));
        let numbers: Vec<Numbered> = lines.iter().filter_map(|it| Numbered::of(it)).collect();
        assert_eq!(numbers.len() as u64, BLOCK_LINES + 4);
        assert!(
            (0..)
                .zip(&numbers)
                .all(|(at, it)| it.message == at && it.sender == 42)
        );
        assert_eq!(numbers.last().unwrap().at_ns, 1_795_437_035_000_000_000);
        assert_eq!(Numbered::of(b"another line"), None);
    }
}
