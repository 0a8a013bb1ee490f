//! A writer's process is paused with SIGSTOP under load, and goes on when a writer of a newer epoch has the stream.
//!
//! `FREEBOARD_PAUSES` says how many times; a long run takes 1,000.
#![cfg(not(loom))]

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use freeboard_flow::Epoch;
use freeboard_stream::{
    AppendError, MasterKey, ReaderOptions, StreamOptions, SyncMode, TicketError, VerifyOptions,
    storage::Disk, verify,
};
use rustix::process::{Pid, Signal, kill_process};

const PRODUCERS: u64 = 2;
const DIRECTORY: &str = "FREEBOARD_FENCE_DIRECTORY";
const REVISION: &str = "FREEBOARD_FENCE_REVISION";
const TEST: &str = "a_paused_writer_acknowledges_nothing_that_the_next_has_not";
/// After so many pauses the next begins a new stream.
const PAUSES_PER_STREAM: u64 = 10;

fn key() -> MasterKey {
    MasterKey::new(b"the key of the paused writers").unwrap()
}

fn options(revision: u64) -> StreamOptions {
    let stream = revision / PAUSES_PER_STREAM;
    let sync: SyncMode = ["batch", "interval:1", "none"][(stream % 3) as usize]
        .parse()
        .unwrap();
    StreamOptions::new()
        .key(key())
        .sync(sync)
        .segment_bytes(128 << 10)
        .rollback_unacknowledged(stream % 5 == 4)
        .epoch(Epoch::new(1, revision))
}

fn payload(producer: u64, revision: u64, index: u64) -> Vec<u8> {
    let mut payload = format!("{producer} {revision} {index} ").into_bytes();
    payload.resize(24 + (index * 131 % 3_000) as usize, b'.');
    payload
}

/// The process that is paused: a line for each record that was acknowledged, and one for the error at the end.
fn write_until_fenced(directory: &str) {
    let revision: u64 = env::var(REVISION).unwrap().parse().unwrap();
    let stream = options(revision).open(directory).unwrap();
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let stream = stream.clone();
            scope.spawn(move || {
                for index in 0.. {
                    let payload = payload(producer, revision, index);
                    let line = match stream.append(&payload).map(|ticket| ticket.wait()) {
                        Ok(Ok(sequence)) => format!("acknowledged {producer} {index} {sequence}\n"),
                        Ok(Err(TicketError::Stale)) | Err(AppendError::Stale) => {
                            say(&format!("stale {producer} 0 0\n"));
                            return;
                        }
                        // The newer one has removed the file, which the writer has found before the epoch.
                        Ok(Err(_)) | Err(AppendError::Reopening) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    say(&line);
                }
            });
        }
    });
}

fn say(line: &str) {
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The process, and what it says.
struct Writer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A record: its sequence and payload.
type Record = (u64, Vec<u8>);

impl Writer {
    fn start(directory: &Path, revision: u64) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(DIRECTORY, directory)
            .env(REVISION, revision.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// The next record that it says it has acknowledged; `None` when a producer found that it is stale, or all did.
    fn next(&mut self, revision: u64) -> Option<Result<Record, ()>> {
        loop {
            let line = self.lines.next()?.unwrap();
            let Some(at) = line.find("acknowledged ") else {
                if line.contains("stale ") {
                    return Some(Err(()));
                }
                continue;
            };
            let mut fields = line[at..].split(' ').skip(1).map(|it| it.parse().unwrap());
            let mut field = || fields.next().unwrap();
            let (producer, index, sequence) = (field(), field(), field());
            return Some(Ok((sequence, payload(producer, revision, index))));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_paused_writer_acknowledges_nothing_that_the_next_has_not() {
    // The same test, in the process that it pauses.
    if let Ok(directory) = env::var(DIRECTORY) {
        return write_until_fenced(&directory);
    }
    let pauses = env::var("FREEBOARD_PAUSES").map_or(30, |pauses| pauses.parse().unwrap());
    let mut directory = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for pause in 0..pauses {
        let revision = 2 * pause;
        if pause > 0 && pause % (PAUSES_PER_STREAM / 2) == 0 {
            directory = tempfile::tempdir().unwrap();
            acknowledged.clear();
        }
        let path = directory.path();
        let mut note = |(sequence, payload): Record| {
            let before = acknowledged.insert(sequence, payload);
            assert_eq!(before, None, "record {sequence} was acknowledged twice");
        };
        let mut old = Writer::start(path, revision);
        for _ in 0..1 + pause * 37 % 60 {
            note(
                old.next(revision)
                    .expect("it writes")
                    .expect("it is not fenced"),
            );
        }
        old.signal(Signal::STOP);
        let new = options(revision + 1).open(path).unwrap();
        let append = |index| {
            let payload = payload(9, revision + 1, index);
            let sequence = new.append(&payload).unwrap().wait().unwrap();
            (sequence, payload)
        };
        (0..20).map(append).for_each(&mut note);
        old.signal(Signal::CONT);
        (20..40).map(append).for_each(&mut note);
        let mut stale = 0;
        while let Some(said) = old.next(revision) {
            match said {
                Ok(record) => note(record),
                Err(()) => stale += 1,
            }
        }
        assert_eq!(stale, PRODUCERS, "each producer has learnt it");
        new.close().unwrap();
        check(path, &acknowledged);
    }
}

/// Each acknowledged record is there once, at its sequence, and the stream is whole.
fn check(path: &Path, acknowledged: &BTreeMap<u64, Vec<u8>>) {
    let disk = Disk::open_stream(path).unwrap();
    let report = verify(&disk, Some(&key()), &VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.damages);
    let reader = ReaderOptions::new().key(key()).open(path).unwrap();
    let mut found = BTreeMap::new();
    let mut sequences = BTreeMap::new();
    for record in reader {
        let record = record.unwrap();
        let before = sequences.insert(record.payload.clone(), record.sequence);
        assert_eq!(before, None, "a record is there twice");
        found.insert(record.sequence, record.payload);
    }
    for (sequence, payload) in acknowledged {
        assert_eq!(found.get(sequence), Some(payload), "record {sequence}");
    }
}
