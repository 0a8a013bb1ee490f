//! The load of the long soak: clients that remember what was acknowledged to them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Clients of each server. Eight of them without a pause take all that it can do.
pub(crate) const CLIENTS: usize = 24;
const CLIENTS_NORMAL: usize = 8;
/// A server that answers nothing for so long is not at work.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_millis(20);

/// Lines of a request to the log server.
pub(crate) const LINES: u64 = 4;
/// Keys of a client of the store.
const KEYS: u64 = 100;
/// Lines that the writer of a stream gets at once.
const FED_AT_ONCE: u64 = 50;
/// So far a reader may be behind: less than what the stream keeps.
const BEHIND_MAX: u64 = 200_000;

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Quiet,
    Normal,
    Overload,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::Quiet, Self::Normal, Self::Overload];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Normal => "normal",
            Self::Overload => "3 times too much",
        }
    }

    /// The pause of a client between its requests; `None` if it sends nothing.
    fn pause(self, client: usize) -> Option<Duration> {
        match self {
            Self::Quiet => (client == 0).then_some(Duration::from_millis(50)),
            Self::Normal => (client < CLIENTS_NORMAL).then_some(Duration::from_millis(5)),
            Self::Overload => Some(Duration::ZERO),
        }
    }
}

/// What all clients share.
#[derive(Default)]
pub(crate) struct Shared {
    level: AtomicU8,
    is_over: AtomicBool,
    /// What was acknowledged: lines of the log server, changes of the store, lines that the stream's reader has seen.
    pub(crate) lines: AtomicU64,
    pub(crate) changes: AtomicU64,
    pub(crate) seen: AtomicU64,
    violations: Mutex<Vec<String>>,
}

impl Shared {
    // Ordering: Relaxed in all of them: they are counters and hints, and threads are joined before results are read.
    pub(crate) fn set(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    pub(crate) fn level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn violation(&self, text: String) {
        println!("VIOLATION: {text}");
        let mut all = self.violations.lock();
        all.as_mut().unwrap_or_else(|it| it.get_mut()).push(text);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        let all = self.violations.lock();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A client with one request at a time.
pub(crate) trait Client: Sized {
    /// Called with each new connection, which comes after each kill.
    fn connected(&mut self, socket: &mut BufReader<TcpStream>, shared: &Shared) -> io::Result<()>;
    fn request(&mut self, socket: &mut BufReader<TcpStream>, shared: &Shared) -> io::Result<()>;

    /// Sends requests until the soak is over.
    fn run(mut self, index: usize, port: u16, shared: &Shared) -> Self {
        let mut connection = None;
        while !shared.is_over() {
            let pause = shared.level().pause(index);
            thread::sleep(pause.unwrap_or(IDLE));
            if pause.is_none() {
                continue;
            }
            let Some(socket) = connection.as_mut() else {
                connection = self.connect(port, shared).ok();
                if connection.is_none() {
                    thread::sleep(IDLE);
                }
                continue;
            };
            if self.request(socket, shared).is_err() {
                connection = None;
            }
        }
        self
    }

    fn connect(&mut self, port: u16, shared: &Shared) -> io::Result<BufReader<TcpStream>> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let mut socket = BufReader::new(socket);
        self.connected(&mut socket, shared)?;
        Ok(socket)
    }
}

/// Posts numbered lines to the log server, and remembers which requests got the answer 200.
pub(crate) struct Logger {
    pub(crate) client: usize,
    /// For each request, whether its lines are durable.
    pub(crate) acknowledged: Vec<bool>,
}

impl Client for Logger {
    fn connected(&mut self, _: &mut BufReader<TcpStream>, _: &Shared) -> io::Result<()> {
        Ok(())
    }

    fn request(&mut self, socket: &mut BufReader<TcpStream>, shared: &Shared) -> io::Result<()> {
        let first = self.acknowledged.len() as u64 * LINES;
        // Whatever happens: a number is sent once.
        self.acknowledged.push(false);
        let mut body = String::new();
        for number in first..first + LINES {
            body += &format!("<14>soak {} {number} {:-<96}\n", self.client, "");
        }
        let head = format!(
            "POST / HTTP/1.1\r\nHost: soak\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.get_mut().write_all((head + &body).as_bytes())?;
        if answer(socket)? == 200 {
            *self.acknowledged.last_mut().expect("the request") = true;
            shared.lines.fetch_add(LINES, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Reads an answer with a `content-length`; its status.
fn answer(socket: &mut BufReader<TcpStream>) -> io::Result<u16> {
    let (mut status, mut length) = (0, 0);
    let mut line = String::new();
    loop {
        line.clear();
        if socket.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest.get(..3).and_then(|it| it.parse().ok()).unwrap_or(0);
        } else if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body)?;
    Ok(status)
}

/// Counts in keys of its own, and compares them with the store after each kill.
pub(crate) struct Counter {
    client: usize,
    next: u64,
    /// The last number of each key that was sent, and that was acknowledged.
    keys: Vec<(u64, u64)>,
}

impl Counter {
    pub(crate) fn new(client: usize) -> Self {
        Self {
            client,
            next: 0,
            keys: vec![(0, 0); KEYS as usize],
        }
    }

    fn key(&self, index: usize) -> String {
        // In all ranges of the store.
        let range = ["0", "b", "k", "x"][index % 4];
        format!("{range}:{}:{index}", self.client)
    }
}

impl Client for Counter {
    fn connected(&mut self, socket: &mut BufReader<TcpStream>, shared: &Shared) -> io::Result<()> {
        for (index, &(sent, acknowledged)) in self.keys.iter().enumerate() {
            let key = self.key(index);
            let found = command(socket, &["GET", &key])?;
            let number = found.split(' ').next().and_then(|it| it.parse().ok());
            let number: u64 = number.unwrap_or(0);
            if !(acknowledged..=sent).contains(&number) {
                shared.violation(format!(
                    "key-value store: {key} has {number}; {acknowledged} was acknowledged, {sent} was sent"
                ));
            }
        }
        Ok(())
    }

    fn request(&mut self, socket: &mut BufReader<TcpStream>, shared: &Shared) -> io::Result<()> {
        self.next += 1;
        let index = (self.next % KEYS) as usize;
        let value = format!("{} {:-<96}", self.next, "");
        self.keys[index].0 = self.next;
        let key = self.key(index);
        if command(socket, &["SET", &key, &value])? == "OK" {
            self.keys[index].1 = self.next;
            shared.changes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Sends a RESP command; the text of a simple or bulk reply, empty for null.
fn command(socket: &mut BufReader<TcpStream>, words: &[&str]) -> io::Result<String> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    socket.get_mut().write_all(request.as_bytes())?;
    let mut line = String::new();
    if socket.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    match (line.get(..1), line.get(1..)) {
        (Some("+"), Some(text)) => Ok(text.to_owned()),
        (Some("$"), Some("-1")) => Ok(String::new()),
        (Some("$"), Some(length)) => {
            let length: usize = length.parse().map_err(io::Error::other)?;
            let mut text = vec![0; length + 2];
            socket.read_exact(&mut text)?;
            text.truncate(length);
            String::from_utf8(text).map_err(io::Error::other)
        }
        _ => Err(io::Error::other(format!("the reply {line:?}"))),
    }
}

/// A line of the stream: the start of the writer that wrote it, and its number since then.
type Position = (u64, u64);

/// Feeds one start of a stream's writer until it is killed or the soak is over; the lines that it took.
pub(crate) fn feed(mut writer: ChildStdin, start: u64, shared: &Shared, behind: &AtomicU64) -> u64 {
    let mut fed = 0;
    while !shared.is_over() {
        thread::sleep(shared.level().pause(0).unwrap_or(IDLE));
        if behind.load(Ordering::Relaxed) > BEHIND_MAX {
            thread::sleep(IDLE);
            continue;
        }
        let mut lines = String::new();
        for number in fed..fed + FED_AT_ONCE {
            lines += &format!("{start} {number} {:-<96}\n", "");
        }
        if writer.write_all(lines.as_bytes()).is_err() {
            // Killed: its reader has all that counts.
            behind.store(0, Ordering::Relaxed);
            break;
        }
        fed += FED_AT_ONCE;
        behind.fetch_add(FED_AT_ONCE, Ordering::Relaxed);
    }
    fed
}

/// Reads all lines of one start of a stream's reader. `last` is the last line of the start before it, from which it must
/// go on without a gap.
pub(crate) fn follow(
    reader: ChildStdout,
    mut last: Option<Position>,
    shared: &Shared,
    behind: &AtomicU64,
) -> Option<Position> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let mut line = String::new();
    let mut is_resuming = last.is_some();
    loop {
        line.clear();
        // A line without its end was cut by a kill.
        if reader.read_line(&mut line).unwrap_or(0) == 0 || !line.ends_with('\n') {
            return last;
        }
        let mut numbers = line.split(' ').map_while(|it| it.parse::<u64>().ok());
        let (Some(start), Some(number)) = (numbers.next(), numbers.next()) else {
            shared.violation(format!("streams: the reader printed {line:?}"));
            return last;
        };
        let position = (start, number);
        if is_resuming && Some(position) <= last {
            is_resuming = Some(position) != last;
            continue;
        }
        let is_next = match last {
            None => number == 0,
            Some((before, _)) if before < start => number == 0,
            Some((before, previous)) => before == start && number == previous + 1,
        };
        if is_resuming || !is_next {
            shared.violation(format!("streams: {position:?} came after {last:?}"));
        }
        is_resuming = false;
        last = Some(position);
        shared.seen.fetch_add(1, Ordering::Relaxed);
        // A writer that was killed has set it to zero meanwhile.
        let _ = behind.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
    }
}
