//! Streams that crashed, rotted or were cut: what is wrong is named, and what is whole can be had.

mod lab;

use std::{collections::BTreeSet, fs, io::Write, ops::Range, path::Path, thread};

use lab::{
    Running, code, count, fields,
    room::{NO_KEY, Room, SEALED, lines},
    stderr, stdout,
};
use serde_json::Value;

/// What the file system writes in one piece; chunks begin at its multiples.
const PAGE: u64 = 4_096;

const SEALS: [&str; 3] = [
    "",
    SEALED,
    "--seal hmac-sha256 --seal-unit record --key-file KEY",
];

fn key(seal: &str) -> &str {
    if seal.is_empty() {
        ""
    } else {
        "--key-file KEY"
    }
}

/// Changes one bit of the first place in the file that has these bytes; where that is.
fn rot(file: &Path, what: &str) -> u64 {
    let mut bytes = fs::read(file).unwrap();
    let mut windows = bytes.windows(what.len());
    let at = windows.position(|it| it == what.as_bytes());
    let at = at.unwrap_or_else(|| panic!("{what:?} is not in {}", file.display()));
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
    at as u64
}

/// A stream of three times five lines, each five in chunks of their own.
fn three_parts(seal: &str) -> Room {
    let room = Room::new();
    for first in [1, 6, 11] {
        room.append(seal, &lines(first..first + 5));
    }
    room
}

fn text(numbers: Range<u64>) -> String {
    String::from_utf8(lines(numbers)).unwrap()
}

#[test]
fn a_writer_that_is_killed_leaves_a_prefix_of_what_it_was_given() {
    for knobs in [
        "--sync batch",
        "--sync interval:5 --segment-bytes 65536",
        "--sync none --seal hmac-sha256 --seal-unit record --key-file KEY",
        "--sync batch --seal blake3 --key-file KEY",
    ] {
        let room = Room::new();
        let words = room.words(&format!("stream append LOG {knobs}"));
        let (append, mut input) = Running::feed(&words);
        let feeder = thread::spawn(move || {
            let mut number = 1;
            // Until nobody reads it any more.
            while input.write_all(&lines(number..number + 1)).is_ok() {
                number += 1;
            }
        });
        let seen = room.wait_for_records(2_000);
        append.kill();
        feeder.join().unwrap();

        let is_prefix = |printed: &str| -> u64 {
            let records = printed.lines().count() as u64;
            assert_eq!(printed, text(1..records + 1), "{knobs}");
            records
        };
        // The kill may have torn the chunk that was being written: then it is named, behind the prefix.
        let left = room.tool("cat LOG");
        let said = stderr(&left).replacen(NO_KEY, "", 1);
        let is_torn = code(&left) == 1 && said.starts_with("error: segment ");
        assert!(
            is_torn || code(&left) == 0 && said.is_empty(),
            "{knobs}: {said}"
        );
        let printed = str::from_utf8(&left.stdout).expect("text was appended");
        assert!(is_prefix(printed) >= seen, "{knobs}");
        // What was being written is cut off when it is opened again, and kept beside.
        room.append(knobs, b"");
        let records = is_prefix(&room.text("cat LOG"));
        assert!(records >= seen, "{knobs}: {seen} were seen, {records} kept");
        let key = key(if knobs.contains("KEY") { SEALED } else { "" });
        let report = room.json(&format!("verify LOG {key}"), 0);
        assert_eq!(count(&report, "last_record"), records, "{knobs}");
        room.append(knobs, &lines(records + 1..records + 11));
        assert_eq!(is_prefix(&room.text("cat LOG")), records + 10, "{knobs}");
        assert_eq!(code(&room.tool(&format!("verify LOG {key}"))), 0, "{knobs}");
    }
}

#[test]
fn ctrl_c_makes_durable_what_was_read_and_says_so_once() {
    for (knobs, key) in [("", ""), (SEALED, "--key-file KEY")] {
        let room = Room::new();
        let words = room.words(&format!("stream append LOG --json {knobs}"));
        let (append, mut input) = Running::feed(&words);
        let feeder = thread::spawn(move || {
            let mut number = 1;
            while input.write_all(&lines(number..number + 100)).is_ok() {
                number += 100;
            }
        });
        room.wait_for_records(1_000);
        append.interrupt();
        let summary: Value = serde_json::from_str(&append.wait_for("records")).unwrap();
        assert_eq!(append.line(), None, "one summary");
        assert_eq!(append.wait(), 130);
        feeder.join().unwrap();
        let records = count(&summary, "records");
        assert_eq!(count(&summary, "durable"), records);
        assert_eq!(room.text("cat LOG"), text(1..records + 1));
        let report = room.json(&format!("verify LOG {key}"), 0);
        assert_eq!(report["head"], summary["head"]);
    }
}

#[test]
fn ctrl_c_ends_an_append_that_waits_for_input() {
    let room = Room::new();
    let (append, mut input) = Running::feed(&room.words("stream append LOG"));
    input.write_all(b"a\nb\nhalf a li").unwrap();
    room.wait_for_records(2);
    append.interrupt();
    assert_eq!(append.wait(), 130);
    assert_eq!(room.text("cat LOG"), "a\nb\n");
}

#[test]
fn a_changed_byte_is_named_by_its_place_and_its_records() {
    for seal in SEALS {
        let room = three_parts(seal);
        let key = key(seal);
        let at = rot(&room.segments()[0], "line 8");
        let report = room.json(&format!("verify LOG {key}"), 1);
        assert_eq!(report["whole"], false);
        assert_eq!(count(&report, "damage_count"), 1, "{report}");
        let damage = &report["damages"][0];
        let expected = [
            "detail",
            "first_record",
            "kind",
            "last_record",
            "offset",
            "segment",
        ];
        assert_eq!(fields(damage), BTreeSet::from(expected));
        assert_eq!(damage["kind"], "rot");
        assert_eq!(count(damage, "segment"), 1);
        let offset = count(damage, "offset");
        assert!(offset.is_multiple_of(PAGE), "{damage}");
        assert!(offset < at && at < offset + PAGE, "{at} in {damage}");
        let (first, last) = (count(damage, "first_record"), count(damage, "last_record"));
        assert!(
            (6..=8).contains(&first) && (8..=10).contains(&last),
            "{damage}"
        );

        let verified = room.tool(&format!("verify LOG {key}"));
        assert_eq!(code(&verified), 1);
        let place = format!("rot: segment 1 at byte {offset}, record");
        let words = stdout(&verified);
        assert!(words.starts_with(&place), "{words}");
        assert!(words.contains("\nDAMAGED: "), "{words}");

        let cat = room.tool(&format!("cat LOG {key}"));
        let says = stderr(&cat);
        assert_eq!(code(&cat), 1, "{says}");
        assert!(stdout(&cat).starts_with(&text(1..6)), "{}", stdout(&cat));
        assert!(!stdout(&cat).contains("line 8"), "{}", stdout(&cat));
        let place = format!("error: segment 1 at byte {offset}, record ");
        assert!(says.starts_with(&place), "{says}");

        let skipped = room.tool(&format!("cat LOG --skip-damage {key}"));
        assert_eq!(code(&skipped), 1);
        assert!(stderr(&skipped).starts_with("damaged: segment 1 at byte "));
        assert!(stdout(&skipped).ends_with(&text(11..16)));

        let backwards = room.tool(&format!("cat LOG --backwards {key}"));
        assert_eq!(code(&backwards), 1);
        let youngest = stdout(&backwards);
        assert!(youngest.starts_with("line 15\nline 14\n"), "{youngest}");
        assert!(!youngest.contains("line 8"), "{youngest}");
        assert!(stderr(&backwards).contains(" at byte "));

        let tail = room.tool(&format!("tail LOG -n 15 {key}"));
        assert_eq!(code(&tail), 1);
        assert!(stdout(&tail).starts_with(&text(1..6)), "{}", stdout(&tail));
        assert_eq!(room.text(&format!("tail LOG -n 5 {key}")), text(11..16));
        room.check_fails(&format!("head LOG {key}"), 1, &["rot", "segment 1"]);
    }
}

#[test]
fn a_chunk_whose_header_rotted_is_never_passed_over_in_silence() {
    for (seal, part) in [("", 0), (SEALED, 0), ("", 1), (SEALED, 1)] {
        let room = three_parts(seal);
        let key = key(seal);
        let segment = &room.segments()[0];
        let mut bytes = fs::read(segment).unwrap();
        let first = 5 * part + 1;
        let line = format!("line {first}");
        let line_at = bytes
            .windows(line.len())
            .position(|it| it == line.as_bytes());
        // The part's first line stands in the page that its header begins.
        let header = line_at.unwrap() as u64 / PAGE * PAGE;
        bytes[header as usize + 60] ^= 1;
        fs::write(segment, bytes).unwrap();

        let report = room.json(&format!("verify LOG {key}"), 1);
        assert_eq!(count(&report["damages"][0], "offset"), header, "{report}");
        let place = format!("segment 1 at byte {header}, record {first}: ");
        for how in ["", "--backwards"] {
            room.check_fails(&format!("cat LOG {how} {key}"), 1, &[&place]);
        }
        room.check_fails(&format!("tail LOG {key}"), 1, &[&place]);
        let skipped = room.tool(&format!("cat LOG --skip-damage {key}"));
        assert_eq!(code(&skipped), 1);
        assert!(stdout(&skipped).ends_with(&text(11..16)));
    }
}

#[test]
fn salvage_copies_what_is_whole_and_names_what_is_not() {
    for seal in SEALS {
        let room = three_parts(seal);
        let key = key(seal);
        rot(&room.segments()[0], "line 8");
        let report = room.json(&format!("salvage LOG COPY {key}"), 1);
        let copied = count(&report, "copied");
        let lost = report["lost"].as_array().unwrap();
        assert_eq!(lost.len(), 1, "{report}");
        let (first, last) = (lost[0][0].as_u64().unwrap(), lost[0][1].as_u64().unwrap());
        assert!(
            (6..=8).contains(&first) && (8..=10).contains(&last),
            "{report}"
        );
        assert_eq!(copied, 15 - (last - first + 1), "{report}");

        let copy = room.json(&format!("verify COPY {key}"), 0);
        assert_eq!(count(&copy, "records"), copied);
        assert_eq!(copy["tags_checked"], !key.is_empty());
        let info = room.json("info LOG", 0);
        assert_eq!(copy["seal"], info["seal"], "sealed alike");
        let expected = text(1..first) + &text(last + 1..16);
        assert_eq!(room.text("cat COPY"), expected);
        // The damaged one is as it was.
        assert_eq!(code(&room.tool(&format!("verify LOG {key}"))), 1);

        room.check_fails(&format!("salvage LOG COPY {key}"), 2, &["is not empty"]);
        let words = room.tool(&format!("salvage LOG OTHER {key}"));
        let words = stdout(&words);
        assert!(
            words.starts_with(&format!("lost: records {first} to {last}\n")),
            "{words}"
        );
    }
}

#[test]
fn salvage_of_a_whole_stream_copies_all_of_it() {
    let room = three_parts(SEALED);
    let report = room.json("salvage LOG COPY --key-file KEY", 0);
    assert_eq!(count(&report, "copied"), 15);
    assert_eq!(report["lost"], Value::Array(vec![]));
    assert_eq!(room.text("cat COPY"), text(1..16));
    assert_eq!(code(&room.tool("verify COPY --key-file KEY")), 0);
}

#[test]
fn a_head_that_was_kept_tells_that_the_end_is_missing() {
    let knobs = "--segment-bytes 65536 --sync none";
    for seal in SEALS {
        let room = Room::new();
        let key = key(seal);
        for first in [1, 5_001, 10_001] {
            room.append(&format!("{knobs} {seal}"), &lines(first..first + 5_000));
        }
        let head = room.text(&format!("head LOG {key}"));
        let head = head.trim_end();
        let verify = format!("verify LOG {key} --expect-head {head}");
        assert_eq!(code(&room.tool(&verify)), 0, "{seal}");

        // By whole files, which leaves nothing that could be missed without the head.
        let segments = room.segments();
        assert!(segments.len() > 2, "{segments:?}");
        fs::remove_file(segments.last().unwrap()).unwrap();
        assert_eq!(code(&room.tool(&format!("verify LOG {key}"))), 0, "{seal}");
        let report = room.json(&verify, 1);
        let damage = &report["damages"][0];
        assert_eq!(damage["kind"], "truncated", "{report}");
        let kept = count(&report, "last_record");
        assert_eq!(count(damage, "first_record"), kept + 1);
        assert_eq!(count(damage, "last_record"), 15_000);
        assert_eq!(room.text("cat LOG"), text(1..kept + 1));
        let words = stdout(&room.tool(&verify));
        assert!(words.starts_with("truncated: segment "), "{words}");

        // And by a part of a file.
        let last = room.segments().pop().unwrap();
        let length = fs::metadata(&last).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(&last).unwrap();
        file.set_len(length / 2).unwrap();
        let report = room.json(&verify, 1);
        let damages = report["damages"].as_array().unwrap();
        assert!(
            damages.iter().any(|it| it["kind"] == "truncated"),
            "{report}"
        );
    }
}

#[test]
fn a_head_of_another_history_is_not_this_streams() {
    let room = three_parts(SEALED);
    let head = room.text("head LOG --key-file KEY");
    let (_, tag) = head.trim_end().split_once(':').unwrap();
    let other = if tag.ends_with('0') { "1" } else { "0" };
    let changed = format!("15:{}{other}", &tag[..tag.len() - 1]);
    let moved = format!("5:{tag}");
    for head in [changed, moved] {
        let words = format!("verify LOG --key-file KEY --expect-head {head}");
        let report = room.json(&words, 1);
        assert_eq!(report["damages"][0]["kind"], "tamper", "{report}");
    }
}

#[test]
fn a_segment_that_is_missing_is_a_gap() {
    for seal in SEALS {
        let room = Room::new();
        let key = key(seal);
        for first in [1, 5_001, 10_001, 15_001] {
            let knobs = format!("--segment-bytes 65536 --sync none {seal}");
            room.append(&knobs, &lines(first..first + 5_000));
        }
        fs::remove_file(&room.segments()[1]).unwrap();
        let report = room.json(&format!("verify LOG {key}"), 1);
        let damage = &report["damages"][0];
        assert_eq!(damage["kind"], "gap", "{report}");
        assert_eq!(count(damage, "segment"), 2);
        let (first, last) = (count(damage, "first_record"), count(damage, "last_record"));
        let report = room.json(&format!("salvage LOG COPY {key}"), 1);
        assert_eq!(report["lost"], serde_json::json!([[first, last]]));
        assert_eq!(
            room.text("cat COPY"),
            text(1..first) + &text(last + 1..20_001)
        );
    }
}
