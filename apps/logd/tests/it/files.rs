//! Files as sinks: rotation, packing, and what other programs do to them.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use flate2::read::GzDecoder;
use freeboard_logd::{
    Config, FileSinkConfig, Keep, Period, Policy, Rotation, StdoutForm,
    query::{Form, Query},
};

use crate::common::{Rig, check_reports_beside_a_flood, eventually, send};

fn start(config: FileSinkConfig) -> Rig {
    Rig::start(Config::new(vec![config.sink("file")]))
}

/// Sends lines one by one: each is a batch of its own.
fn fill(rig: &Rig, lines: &[&str]) {
    for line in lines {
        let before = rig.server.totals().accepted;
        send(rig, &format!("{line}\n"));
        rig.wait_accepted(before + 1);
        rig.wait_settled();
    }
}

/// The last word of each line.
fn words(text: &str) -> Vec<String> {
    let word = |line: &str| line.rsplit(' ').next().unwrap_or_default().to_owned();
    text.lines().map(word).collect()
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).expect("it is there");
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut text = String::new();
        let read = GzDecoder::new(bytes.as_slice()).read_to_string(&mut text);
        read.expect("it is whole");
        return text;
    }
    String::from_utf8(bytes).expect("it is text")
}

/// The rotated files and what stands for them, by their names.
fn others(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.parent().expect("a directory")).expect("it is there");
    let paths = entries.map(|entry| entry.expect("it is readable").path());
    let mut others: Vec<_> = paths.filter(|other| other != path).collect();
    others.sort();
    others
}

/// The words of all files, the oldest first.
fn all_words(path: &Path) -> Vec<String> {
    let files = others(path).into_iter().chain([path.to_owned()]);
    files.flat_map(|file| words(&read(&file))).collect()
}

#[test]
fn a_second_server_does_not_write_to_the_same_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let sink = || vec![FileSinkConfig::new(&path).sink("file")];
    let first = Rig::start(Config::new(sink()));
    let second = Rig::try_start(Config::new(sink()));
    let error = second.err().expect("it is refused").to_string();
    assert!(
        error.ends_with("another log server writes to it"),
        "{error}"
    );
    // Also after the first has begun a new file.
    fill(&first, &["a"]);
    first.server.rotate();
    eventually("it is rotated", || !others(&path).is_empty());
    assert!(Rig::try_start(Config::new(sink())).is_err());
    assert!(first.stop().is_clean());
    assert!(Rig::start(Config::new(sink())).stop().is_clean());
}

#[test]
fn a_file_is_rotated_by_its_size_packed_and_the_oldest_are_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let rig = start(FileSinkConfig {
        rotation: Rotation {
            bytes: Some(200),
            period: None,
        },
        compress: true,
        keep: Keep {
            files: Some(3),
            bytes: None,
        },
        ..FileSinkConfig::new(&path)
    });
    let lines: Vec<_> = (0..30).map(|line| format!("line{line}")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    fill(&rig, &lines);
    let is_packed = |path: &PathBuf| path.to_string_lossy().ends_with("Z.gz");
    eventually("three packed files are left", || {
        let others = others(&path);
        others.len() == 3 && others.iter().all(is_packed)
    });
    assert!(fs::metadata(&path).expect("it is there").len() <= 200);
    let words = all_words(&path);
    assert_eq!(words, lines[30 - words.len()..]);
    assert!(rig.stop().is_clean());
}

#[test]
fn the_directory_is_created_and_a_repeated_line_names_its_host_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a/b/app.log");
    let mut config = Config::new(vec![FileSinkConfig::new(&path).sink("file")]);
    for group in &mut config.groups {
        group.policy = Policy::Coalesce;
    }
    let rig = Rig::start(config);
    send(&rig, &"<13>Nov 23 11:55:01 p1 app: text\n".repeat(3));
    rig.wait_accepted(3);
    assert!(rig.stop().is_clean());
    let text = read(&path);
    let shown: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let shown: Vec<_> = shown.iter().map(|(_time, text)| *text).collect();
    assert_eq!(shown, ["p1 app: text", "p1 last message repeated 2 times"]);
}

#[test]
fn a_file_of_json_keeps_severities_and_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let rig = start(FileSinkConfig {
        form: StdoutForm::Json,
        ..FileSinkConfig::new(&path)
    });
    fill(&rig, &["<11>an error", "<13>a notice"]);
    assert!(rig.stop().is_clean());
    let shown = |since_ns| {
        let mut query = Query::new(&path);
        query.form = Form::Raw;
        query.filter.severity = "err".parse().expect("a severity");
        query.filter.since_ns = Some(since_ns);
        let mut out = Vec::new();
        let done = query.run(&mut out, &mut |_| {}, &|| false);
        done.expect("it is a log");
        String::from_utf8(out).expect("it is JSON")
    };
    let text = shown(0);
    let line: serde_json::Value = serde_json::from_str(&text).expect("one line");
    assert_eq!(line["message"], "an error");
    let time: jiff::Timestamp = line["time"].as_str().expect("a time").parse().expect("it");
    let time_ns = u64::try_from(time.as_nanosecond()).expect("it is after 1970");
    assert_eq!(shown(time_ns), text);
    assert_eq!(shown(time_ns + 1), "");
}

#[test]
fn a_new_file_is_begun_on_demand_and_at_the_end_of_a_period() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let config = FileSinkConfig {
        rotation: Rotation {
            bytes: None,
            period: Some(Period::Daily),
        },
        ..FileSinkConfig::new(&path)
    };
    let rig = start(config.clone());
    fill(&rig, &["a", "b"]);
    rig.server.rotate();
    eventually("it is rotated", || {
        others(&path).len() == 1 && path.exists()
    });
    assert_eq!(read(&path), "");
    // An empty file is not rotated.
    rig.server.rotate();
    fill(&rig, &["c"]);
    assert_eq!(others(&path).len(), 1);
    assert!(rig.stop().is_clean());

    // The last line is of two days ago.
    let file = fs::File::options()
        .append(true)
        .open(&path)
        .expect("it is there");
    let before = SystemTime::now() - Duration::from_secs(48 * 3_600);
    file.set_modified(before).expect("it is ours");
    let rig = start(config);
    assert_eq!(others(&path).len(), 1);
    fill(&rig, &["d"]);
    assert_eq!(others(&path).len(), 2);
    assert_eq!(words(&read(&path)), ["d"]);
    assert_eq!(all_words(&path), ["a", "b", "c", "d"]);
    assert!(rig.stop().is_clean());
}

#[test]
fn what_a_killed_process_left_is_finished_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let rotated = |time: &str, end: &str| directory.path().join(format!("app.log-{time}{end}"));
    let [first, second] = ["20260101T000000.000000Z", "20260102T000000.000000Z"];
    fs::write(rotated(first, ""), "x first\n").expect("a file");
    fs::write(rotated(first, ".gz"), "half of it").expect("a file");
    fs::write(rotated(second, ""), "x second\n").expect("a file");
    let temporary = directory.path().join(format!(".app.log-{second}.gz.tmp"));
    fs::write(&temporary, "half of it").expect("a file");
    // Others have files there too.
    let foreign = [".app.log.swp", "app.log-old", "app.log-old.gz"];
    for name in foreign {
        fs::write(directory.path().join(name), "x").expect("a file");
    }
    fs::write(&path, "x third\nx four").expect("a file");
    let rig = start(FileSinkConfig {
        compress: true,
        ..FileSinkConfig::new(&path)
    });
    fill(&rig, &["fifth"]);
    let packed = [rotated(first, ".gz"), rotated(second, ".gz")];
    eventually("all is packed", || {
        !temporary.exists() && !rotated(first, "").exists() && !rotated(second, "").exists()
    });
    assert_eq!(packed.map(|path| read(&path)), ["x first\n", "x second\n"]);
    for name in foreign {
        assert_eq!(
            fs::read(directory.path().join(name)).expect("it is there"),
            b"x"
        );
    }
    // The line that was cut is a line of its own.
    assert_eq!(words(&read(&path)), ["third", "four", "fifth"]);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_file_that_another_program_moves_cuts_or_removes_loses_no_later_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let moved = directory.path().join("app.log.1");
    let rig = start(FileSinkConfig::new(&path));
    fill(&rig, &["a"]);
    fs::rename(&path, &moved).expect("it is there");
    fill(&rig, &["b"]);
    assert_eq!(
        (words(&read(&moved)), words(&read(&path))),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    fs::File::options()
        .write(true)
        .truncate(true)
        .open(&path)
        .expect("it is there");
    fill(&rig, &["c"]);
    assert_eq!(words(&read(&path)), ["c"]);
    fs::remove_file(&path).expect("it is there");
    fill(&rig, &["d"]);
    assert_eq!(words(&read(&path)), ["d"]);
    // A name that is no file: lines wait until it is one again.
    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("it is free");
    send(&rig, "e\n");
    rig.wait_accepted(5);
    let gauge = &rig.server.sinks()[0];
    eventually("it has failed", || gauge.failing_for().is_some());
    let error = gauge.last_error().unwrap_or_default();
    assert!(error.contains("app.log"), "{error}");
    fs::remove_dir(&path).expect("it is empty");
    rig.wait_settled();
    assert_eq!(words(&read(&path)), ["e"]);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_line_that_somebody_waits_for_is_synced_while_others_come() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let rig = start(FileSinkConfig::new(&path));
    check_reports_beside_a_flood(rig);
}

/// A small file system in memory, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`: not as this user.
    fn mount(bytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]);
        let output = mount.arg(directory.path()).output().ok()?;
        output.status.success().then(|| Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "skipped tests say so")]
fn on_a_full_disk_the_oldest_rotated_file_makes_way() {
    let Some(disk) = SmallDisk::mount(256 << 10) else {
        return eprintln!("skipped: this user cannot mount a file system");
    };
    let path = disk.0.path().join("app.log");
    let mut config = FileSinkConfig {
        rotation: Rotation {
            bytes: Some(32 << 10),
            period: None,
        },
        // By itself it would never remove one here.
        keep: Keep {
            files: Some(100),
            bytes: None,
        },
        ..FileSinkConfig::new(&path)
    };
    config.sync = true;
    let rig = start(config);
    let lines: Vec<_> = (0..1_000)
        .map(|line| format!("{} line{line}", "x".repeat(1_000)))
        .collect();
    send(&rig, &(lines.join("\n") + "\n"));
    rig.wait_accepted(1_000);
    rig.wait_settled();
    let gauge = &rig.server.sinks()[0];
    assert!(gauge.errors() > 0, "the disk was full");
    assert_eq!((gauge.lines(), gauge.lost()), (1_000, 0));
    let words = all_words(&path);
    let expected = (1_000 - words.len()..1_000).map(|line| format!("line{line}"));
    assert!(
        words.len() > 50 && words.iter().cloned().eq(expected),
        "{words:?}"
    );
    assert!(rig.stop().is_clean());
}
