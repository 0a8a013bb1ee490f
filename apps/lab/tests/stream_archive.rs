//! `freeboard stream archive`, `restore`, and `verify` of an archive: an archiver may be killed at any moment.
//! `FREEBOARD_ARCHIVE_KILLS` says how often one is killed; `cargo xtask soak` does it 100 times.
#![cfg(feature = "archive")]

mod lab;

use std::{env, fs, path::PathBuf, thread};

use lab::{Running, code, count, room::Room, room::SEALED, room::lines, stderr, stdout};

/// The room's archive.
fn url(room: &Room) -> String {
    format!("file://{}", folder(room).display())
}

fn folder(room: &Room) -> PathBuf {
    room.path("BENCH").join("archive")
}

/// How many objects of the archive have names that end so.
fn objects(room: &Room, suffix: &str) -> usize {
    let entries = fs::read_dir(folder(room)).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(suffix)).count()
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + lab::DEADLINE;
    while !is_so() {
        assert!(std::time::Instant::now() < until, "{what}");
        thread::yield_now();
    }
}

#[test]
fn an_archiver_that_is_killed_is_continued_by_the_next() {
    let kills = env::var("FREEBOARD_ARCHIVE_KILLS");
    let kills = kills.map_or(1, |value| value.parse().expect("a number"));
    for parts in [4, 5, 1, 2, 3].into_iter().cycle().take(kills) {
        let is_checked = (0..10).any(|_| check_killed_after(parts));
        assert!(
            is_checked,
            "ten archivers had sent the segment before the kill"
        );
    }
}

/// Kills an archiver when the archive has `parts` of eight parts, all of them noted. The next archiver must send only the
/// rest. Returns `false` if the whole segment was sent before the kill, as happens on a busy machine.
fn check_killed_after(parts: usize) -> bool {
    let room = Room::new();
    let line = [vec![b'x'; 9_999], vec![b'\n']].concat();
    // One segment of eight parts, and a second one.
    room.append(SEALED, &line.repeat(6_800));
    let words = format!("archive LOG --key-file KEY --to {}", url(&room));
    let slow = room.words(&format!("stream {words} --rate 16M"));
    let killed = Running::start(&slow);
    let note = folder(&room).join("00000000000000000001.segment.upload");
    let tags =
        || fs::read_to_string(&note).map_or(0, |text| text.lines().count().saturating_sub(3));
    let is_sent = || objects(&room, ".segment") > 0;
    wait_until("no part is noted", || tags() >= parts || is_sent());
    if is_sent() {
        return false;
    }
    // The second segment is still to be sent, so it has not ended by itself.
    killed.kill();
    if is_sent() {
        return false;
    }
    let report = room.json(&words, 0);
    assert_eq!(count(&report, "archived_record"), 6_800);
    let rest = 70_000_000 - ((parts as u64) << 23);
    assert!(count(&report, "bytes") < rest, "{parts} parts: {report}");
    assert_eq!(objects(&room, ".upload"), 0);
    let verified = room.json(&format!("verify {} --key-file KEY", url(&room)), 0);
    assert_eq!(
        (count(&verified, "records"), &verified["head"]),
        (6_800, &report["head"])
    );
    assert_eq!(count(&room.json(&words, 0), "bytes"), 0);
    true
}

#[test]
fn what_was_archived_while_it_was_written_is_restored() {
    let room = Room::new();
    let knobs = format!("{SEALED} --segment-bytes 65536");
    room.append(&knobs, &lines(1..10_001));
    let words = format!(
        "stream archive LOG --key-file KEY --follow --to {}",
        url(&room)
    );
    let follower = Running::start(&room.words(&words));
    wait_until("nothing is archived", || objects(&room, ".segment") > 0);
    room.append(&knobs, &lines(10_001..20_001));
    follower.terminate();
    assert_eq!(follower.wait(), 143);
    let all = lines(1..20_001);
    let archived = room.tool(&format!("cat {} --key-file KEY", url(&room)));
    assert_eq!(stdout(&archived).as_bytes(), all);
    let restored = room.tool(&format!("restore {} COPY --key-file KEY", url(&room)));
    assert!(stdout(&restored).starts_with("whole: 20,000 records, 1 to 20000, "));
    assert_eq!(room.text("cat COPY --key-file KEY").as_bytes(), all);
    let words = format!("restore {} COPY --key-file KEY", url(&room));
    room.check_fails(&words, 2, &["COPY is not empty"]);
}

#[test]
fn mistakes_and_damage_are_named() {
    let room = Room::new();
    room.check_fails("archive LOG --to ftp://host/path", 2, &["No such file"]);
    room.append("--segment-bytes 65536", &lines(1..10_001));
    room.check_fails(
        "archive LOG --to ftp://host",
        2,
        &["expected s3://BUCKET/PREFIX"],
    );
    room.check_fails("archive LOG --to file:///x --rate fast", 2, &["20M"]);
    room.check_fails(
        &format!("verify {}", url(&room)),
        2,
        &["there is no stream"],
    );
    let sent = room.tool(&format!("archive LOG --to {}", url(&room)));
    assert_eq!(code(&sent), 0, "{}", stderr(&sent));
    let object = folder(&room).join("00000000000000000002.segment");
    let mut content = fs::read(&object).unwrap();
    content[5_000] ^= 1;
    fs::write(&object, content).unwrap();
    let verified = room.tool(&format!("verify {}", url(&room)));
    assert_eq!(code(&verified), 1);
    assert!(
        stdout(&verified).contains("rot: segment 2 at byte 4096"),
        "{}",
        stdout(&verified)
    );
    let words = format!("restore {} COPY", url(&room));
    room.check_fails(
        &words,
        1,
        &["the archive is damaged: rot: segment 2 at byte 4096"],
    );
    assert!(!room.path("COPY").exists());
}
