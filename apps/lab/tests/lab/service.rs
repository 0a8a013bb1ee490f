//! A service that runs beside a test: what it answers, what it counts and what it costs.

use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use super::{DEADLINE, Running};

/// A request that leaves the connection open.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Within this time a service has ended after Ctrl-C, or says that it has cut something off.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Parts of a second that Linux counts processor time in.
const TICKS_PER_SECOND: u64 = 100;

/// A service of the built binary.
pub(crate) struct Service {
    running: Running,
    pub(crate) address: String,
    gauges: String,
}

/// An answer that came whole.
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Service {
    /// `serve-http` on a port that is free.
    pub(crate) fn http(knobs: &str) -> Self {
        let words = format!("serve-http --listen 127.0.0.1:0 {knobs}");
        Self::http_of(Running::start(&words))
    }

    /// As [`http`](Self::http), with so many files.
    pub(crate) fn http_with_files(files: u32) -> Self {
        let words = "serve-http --listen 127.0.0.1:0";
        Self::http_of(Running::start_with_files(words, files))
    }

    fn http_of(running: Running) -> Self {
        let address = address(&running.wait_for("serves"));
        Self {
            running,
            gauges: address.clone(),
            address,
        }
    }

    /// `proxy` on a port that is free.
    pub(crate) fn proxy(to: &str) -> Self {
        let words = format!("proxy --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --to {to}");
        let running = Running::start(&words);
        Self {
            address: address(&running.wait_for("carries")),
            gauges: address(&running.wait_for("gauges")),
            running,
        }
    }

    /// `fetcher`, with its gauges on a port that is free.
    pub(crate) fn fetcher(knobs: &str) -> Self {
        let running = Running::start(&format!("fetcher --listen 127.0.0.1:0 {knobs}"));
        let address = address(&running.wait_for("at work"));
        Self {
            running,
            gauges: address.clone(),
            address,
        }
    }

    /// A connection that gives up rather than hang.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(&self.address).expect("it listens")
    }

    /// What a page holds, on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }

    /// A count of its gauges.
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        let page = get(&self.gauges, "/metrics");
        find_gauge(&page, name)
    }

    /// Waits until a count of its gauges is as wanted.
    pub(crate) fn wait_for_gauge(&self, name: &str, is_it: impl Fn(u64) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let count = self.gauge(name);
            if is_it(count) {
                return;
            }
            assert!(Instant::now() < deadline, "{name} stays {count}");
            thread::yield_now();
        }
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// By how much its resident memory grew at the most, in bytes.
    pub(crate) fn growth_bytes(&self, during: impl FnOnce()) -> u64 {
        // Where that is not allowed, the peak so far is that of its start.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.running.id()), "5");
        let (before, file_before) = (self.status_bytes("VmHWM:"), self.status_bytes("RssFile:"));
        during();
        let file = self.status_bytes("RssFile:").saturating_sub(file_before);
        // Not the pages of the program itself that are used for the first time.
        (self.status_bytes("VmHWM:") - before).saturating_sub(file)
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.running.id()));
        let text = text.expect("Linux tells it");
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kibibytes: u64 = kibibytes.expect("a size").parse().expect("a number");
        kibibytes * 1_024
    }

    /// The processor time that it has used.
    pub(crate) fn processor_time(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.running.id()));
        let text = text.expect("Linux tells it");
        // Behind the name, which may hold anything: user and system time are the 14th and 15th field.
        let (_, fields) = text.rsplit_once(')').expect("it has a name");
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().expect("a number"))
            .sum();
        Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
    }

    /// Sends it a Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.running.interrupt();
    }

    /// Asks it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        self.running.terminate();
    }

    /// Waits for its end; the exit code.
    pub(crate) fn wait(self) -> i32 {
        self.running.wait()
    }

    /// Ends it with a SIGKILL.
    pub(crate) fn kill(self) {
        self.running.kill();
    }

    /// Ends it with a Ctrl-C, in order.
    pub(crate) fn end(self) {
        self.interrupt();
        assert_eq!(self.wait(), 0);
    }
}

/// The address in what a service says when it is there.
fn address(said: &str) -> String {
    let word = said
        .split_whitespace()
        .find(|word| word.contains("127.0.0.1:"));
    word.expect("it names its address")
        .trim_start_matches("http://")
        .trim_end_matches(',')
        .trim_end_matches("/metrics")
        .to_owned()
}

/// A connection that gives up rather than hang.
pub(crate) fn connect(address: &str) -> io::Result<TcpStream> {
    let peer = TcpStream::connect(address)?;
    peer.set_nodelay(true)?;
    peer.set_read_timeout(Some(DEADLINE))?;
    peer.set_write_timeout(Some(DEADLINE))?;
    Ok(peer)
}

pub(crate) fn get(address: &str, path: &str) -> String {
    let mut peer = connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    peer.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it answers");
    answer
}

/// A count in a page of gauges: of the first series of that name, or of the one with these labels.
pub(crate) fn find_gauge(page: &str, name: &str) -> u64 {
    let value = page.lines().find_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let rest = series.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('{')).then_some(value)
    });
    let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.parse().expect("a count")
}

/// The answer to the one request that is under way; none if the connection ends before it begins.
pub(crate) fn answer(peer: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        if let Some(answer) = Answer::of(&bytes) {
            return Some(answer);
        }
        let read = peer.read(&mut piece);
        match read {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no answer comes"),
            _ if bytes.is_empty() => return None,
            _ => panic!("{read:?} after {} bytes of an answer", bytes.len()),
        }
    }
}

impl Answer {
    /// The answer that these bytes are, if they are a whole one.
    fn of(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("it has a length").parse().expect("a number");
        let body = &bytes[end + 4..];
        (body.len() >= length).then(|| Self {
            head,
            body: body.to_vec(),
        })
    }
}
