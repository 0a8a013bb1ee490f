//! `freeboard logd` of the built binary, and the flood's lines that it has.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
};

use super::{Running, code, command, run};

/// A log server on a free port.
pub(crate) struct LogServer {
    running: Running,
    pub(crate) log: PathBuf,
    pub(crate) address: String,
}

impl LogServer {
    /// One that writes to this stream.
    pub(crate) fn start(log: &Path, flags: &str) -> Self {
        let arguments = format!("logd {} --tcp 127.0.0.1:0 {flags}", log.display());
        let running = Running::start(&arguments);
        let said = running.wait_for("takes lines");
        let address = said
            .split_whitespace()
            .find_map(|word| word.strip_prefix("tcp://"));
        Self {
            running,
            log: log.to_owned(),
            address: address.expect("it names its address").to_owned(),
        }
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().expect("a port")
    }

    /// The most memory that it had, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.id()));
        let status = status.expect("Linux tells it");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kibibytes.expect("a size").parse::<u64>().expect("a number") << 10
    }

    /// Ends it in order.
    pub(crate) fn end(self) {
        self.running.interrupt();
        assert_eq!(self.running.wait(), 0);
    }

    /// Ends it with a SIGKILL.
    pub(crate) fn kill(self) {
        self.running.kill();
    }
}

/// Floods a server; the exit code and what `--json -` says.
pub(crate) fn flood_to(server: &str, flags: &str) -> (i32, serde_json::Value) {
    let output = run(&format!("lab flood --to {server} --json - {flags}"));
    let json = serde_json::from_slice(&output.stdout);
    (code(&output), json.expect("standard output is JSON"))
}

/// Sender and number of a line of the flood.
pub(crate) fn number_of(line: &str) -> Option<(u32, u32)> {
    let (_, rest) = line.split_once("sender=")?;
    let (sender, message) = rest.split_once(" message=")?;
    Some((sender.parse().ok()?, message.trim_end().parse().ok()?))
}

/// The numbers of each sender, in the order of the log, which `freeboard logs` reads without finding damage.
pub(crate) fn numbers_in(log: &Path) -> BTreeMap<u32, Vec<u32>> {
    let mut child = command(&format!("logs {} --raw", log.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut numbers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (sender, message) in lines.filter_map(|line| number_of(&line.expect("UTF-8"))) {
        numbers.entry(sender).or_default().push(message);
    }
    assert!(child.wait().expect("it was started").success(), "damage");
    numbers
}
