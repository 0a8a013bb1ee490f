//! A writer's process is killed with signal 9 under load, again and again.
//!
//! `FREEBOARD_KILLS` says how many times; a soak run takes 10,000.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use freeboard_stream::{
    MasterKey, ReaderOptions, StreamOptions, SyncMode, VerifyOptions,
    format::{Algorithm, SealUnit},
    storage::Disk,
    verify,
};

const PRODUCERS: u64 = 3;
/// After so many kills the next begins a new stream, so that reading back stays short.
const KILLS_PER_STREAM: u64 = 10;
const DIRECTORY: &str = "FREEBOARD_KILL_DIRECTORY";
const TEST: &str = "nothing_acknowledged_is_lost_doubled_or_out_of_order_at_any_kill";
const LIFE: &str = "FREEBOARD_KILL_LIFE";

/// Who wrote a record, in which life, and as his how many-th.
type Source = (u64, u64, u64);
/// The records that must be found again, each at its sequence.
type Promised = BTreeMap<Source, u64>;

fn key() -> MasterKey {
    MasterKey::new(b"the key of the killed writers").unwrap()
}

fn algorithm(stream: u64) -> Algorithm {
    Algorithm::ALL[stream as usize % Algorithm::ALL.len()]
}

/// The key, where the stream of this life is sealed: it is refused where nothing is.
fn key_of(life: u64) -> Option<MasterKey> {
    let is_sealed = algorithm(life / KILLS_PER_STREAM).is_sealed();
    is_sealed.then(key)
}

fn options(stream: u64) -> StreamOptions {
    let algorithm = algorithm(stream);
    let unit = [SealUnit::Batch, SealUnit::Record][(stream / 4 % 2) as usize];
    let sync: SyncMode = ["batch", "interval:1", "none"][(stream % 3) as usize]
        .parse()
        .unwrap();
    StreamOptions::new()
        .seal(algorithm, unit)
        .key(key())
        .sync(sync)
        .segment_bytes(256 << 10)
}

/// What a record says: who appended it, in which life, as his how many-th; and bytes to fill.
fn payload(producer: u64, life: u64, index: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    for field in [producer, life, index] {
        payload.extend_from_slice(&field.to_le_bytes());
    }
    payload.resize(24 + (index * 131 % 3_000) as usize, index as u8);
    payload
}

fn source(payload: &[u8]) -> Source {
    let field = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
    (field(0), field(8), field(16))
}

/// The process that is killed: says which records were acknowledged, a line each, until then.
fn write_until_killed(directory: &str) {
    let life: u64 = env::var(LIFE).unwrap().parse().unwrap();
    let stream = options(life / KILLS_PER_STREAM).open(directory).unwrap();
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let stream = stream.clone();
            scope.spawn(move || {
                let mut waiting = Vec::new();
                for index in 0.. {
                    waiting.push(stream.append(&payload(producer, life, index)).unwrap());
                    // One at a time, two, three: so that kills meet batches of all sizes.
                    if waiting.len() as u64 <= index % 7 {
                        continue;
                    }
                    let first = index + 1 - waiting.len() as u64;
                    for (offset, ticket) in waiting.drain(..).enumerate() {
                        let sequence = ticket.wait().unwrap();
                        let index = first + offset as u64;
                        let line = format!("acknowledged {producer} {index} {sequence}\n");
                        std::io::stdout().write_all(line.as_bytes()).unwrap();
                    }
                }
            });
        }
    });
}

/// Runs the writer until it has acknowledged `enough` records, kills it, and returns all it had
/// acknowledged: producer, index, sequence.
fn run_and_kill(directory: &Path, life: u64, enough: usize) -> Vec<(u64, u64, u64)> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(DIRECTORY, directory)
        .env(LIFE, life.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    while acknowledged.len() < enough {
        let line = lines.next().expect("it writes until it is killed").unwrap();
        acknowledged.extend(parse(&line));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged.extend(lines.filter_map(|line| parse(&line.ok()?)));
    acknowledged
}

fn parse(line: &str) -> Option<(u64, u64, u64)> {
    let mut fields = line.strip_prefix("acknowledged ")?.split(' ');
    let mut field = || fields.next()?.parse().ok();
    Some((field()?, field()?, field()?))
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_out_of_order_at_any_kill() {
    // The same test, in the process that it kills.
    if let Ok(directory) = env::var(DIRECTORY) {
        return write_until_killed(&directory);
    }
    let kills = env::var("FREEBOARD_KILLS").map_or(100, |kills| kills.parse().unwrap());
    let mut directory = tempfile::tempdir().unwrap();
    let mut promised = Promised::new();
    for life in 0..kills {
        if life > 0 && life % KILLS_PER_STREAM == 0 {
            directory = tempfile::tempdir().unwrap();
            promised.clear();
        }
        let enough = 1 + (life * 37 % 200) as usize;
        for (producer, index, sequence) in run_and_kill(directory.path(), life, enough) {
            promised.insert((producer, life, index), sequence);
        }
        let options = options(life / KILLS_PER_STREAM);
        let opened = options.open(directory.path()).unwrap();
        check(directory.path(), &mut promised, life);
        opened.close().unwrap();
        let disk = Disk::open(directory.path()).unwrap();
        let key = key_of(life);
        let report = verify(&disk, key.as_ref(), &VerifyOptions::default(), &mut |_| {}).unwrap();
        assert!(report.is_whole(), "life {life}: {:?}", report.damages);
    }
}

/// Reads everything back. What is found was written, so from now on it must stay.
fn check(path: &Path, promised: &mut Promised, life: u64) {
    let mut found = BTreeMap::new();
    let mut last = BTreeMap::new();
    let reader = ReaderOptions::new().key(key_of(life)).open(path).unwrap();
    for (record, sequence) in reader.zip(1..) {
        let record = record.unwrap();
        assert_eq!(record.sequence, sequence, "life {life}");
        let (producer, its_life, index) = source(&record.payload);
        assert_eq!(record.payload, payload(producer, its_life, index));
        let before = last.insert((producer, its_life), index);
        let expected = before.map_or(0, |before| before + 1);
        assert_eq!(
            index, expected,
            "life {life}: producer {producer} of life {its_life}"
        );
        found.insert((producer, its_life, index), sequence);
    }
    for (record, sequence) in promised.iter() {
        assert_eq!(found.get(record), Some(sequence), "life {life}: {record:?}");
    }
    *promised = found;
}
