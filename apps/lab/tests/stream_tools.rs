//! The stream tools on streams that are whole: what goes in comes out, at the place that is asked for.

mod lab;

use std::{collections::BTreeSet, fs, io::Write, sync::mpsc, thread};

use lab::{
    Running, code, count, fields, json,
    room::{NO_KEY, Room, SEALED, lines},
    stderr, stdout,
};
use serde_json::Value;

/// The knobs that seal a stream, none first.
const SEALS: [&str; 9] = [
    "",
    "--seal hmac-sha256 --key-file KEY",
    "--seal hmac-sha512 --key-file KEY",
    "--seal hmac-ripemd160 --key-file KEY",
    "--seal blake3 --key-file KEY",
    "--seal hmac-sha256 --seal-unit record --key-file KEY",
    "--seal hmac-sha512 --seal-unit record --key-file KEY",
    "--seal hmac-ripemd160 --seal-unit record --key-file KEY",
    "--seal blake3 --seal-unit record --key-file KEY",
];

fn key(knobs: &str) -> &str {
    if knobs.contains("KEY") {
        "--key-file KEY"
    } else {
        ""
    }
}

#[test]
fn what_is_appended_is_printed_and_verifies() {
    for seal in SEALS {
        for mode in ["none", "interval:5", "batch"] {
            let room = Room::new();
            let knobs = format!("{seal} --sync {mode}");
            let output = room.append(&knobs, &lines(1..3_001));
            assert!(
                stderr(&output).starts_with("3,000 lines appended; head 3000:"),
                "{}",
                stderr(&output)
            );
            room.append(&knobs, &lines(3_001..3_101));
            let all = lines(1..3_101);
            assert_eq!(room.text("cat LOG").as_bytes(), all, "{knobs}");
            let key = key(seal);
            let printed = room.text(&format!("cat LOG {key}"));
            assert_eq!(printed.as_bytes(), all, "{knobs}");
            let verified = room.text(&format!("verify LOG {key}"));
            assert!(
                verified.starts_with("whole: 3,100 records, 1 to 3100, "),
                "{knobs}: {verified}"
            );
            assert!(!verified.contains("not checked"), "{knobs}: {verified}");
        }
    }
}

#[test]
fn a_sealed_stream_can_be_checked_without_its_key_for_rot_alone() {
    let room = Room::new();
    room.append(SEALED, &lines(1..11));
    let verified = room.text("verify LOG");
    assert!(verified.contains("tags not checked (no key)"), "{verified}");
    assert_eq!(room.json("verify LOG", 0)["tags_checked"], false);
    let with_key = room.json("verify LOG --key-file KEY", 0);
    assert_eq!(with_key["tags_checked"], true);
}

#[test]
fn empty_lines_bytes_of_any_kind_and_a_last_line_without_an_end_are_records() {
    for seal in SEALS {
        let room = Room::new();
        let any: Vec<u8> = (0..=255u8).filter(|byte| *byte != b'\n').collect();
        let input = [b"first\n\n\n", any.as_slice(), b"\n\r\nlast"].concat();
        room.append(seal, &input);
        let output = room.tool("cat LOG");
        assert_eq!(code(&output), 0);
        assert_eq!(output.stdout, [&input, b"\n".as_slice()].concat());
        let records = room.tool("cat LOG --json");
        let records: Vec<Value> = stdout(&records)
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect();
        let sequences: Vec<u64> = records.iter().map(|it| count(it, "sequence")).collect();
        assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
        let texts: Vec<Option<&str>> = records.iter().map(|it| it["text"].as_str()).collect();
        assert_eq!(
            texts,
            [
                Some("first"),
                Some(""),
                Some(""),
                None,
                Some("\r"),
                Some("last")
            ]
        );
        let hex: String = any.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(records[3]["hex"], hex);
        assert!(records[0]["time"].as_str().unwrap().ends_with('Z'));
    }
}

#[test]
fn nothing_appended_is_no_error() {
    let room = Room::new();
    let output = room.append("", b"");
    assert_eq!(stderr(&output), "0 lines appended; no records\n");
    for tool in ["cat LOG", "tail LOG", "verify LOG"] {
        room.check_fails(tool, 2, &["there is no stream"]);
    }
    room.append("", b"\n");
    assert_eq!(room.text("cat LOG"), "\n");
    room.append("", b"");
    assert_eq!(room.text("cat LOG"), "\n");
}

#[test]
fn the_summary_of_an_append_is_json_too() {
    let room = Room::new();
    room.append(SEALED, b"abc\n");
    let output = room.append(&format!("{SEALED} --json"), b"defg\n\nh");
    assert_eq!(stderr(&output), "");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = ["bytes", "durable", "head", "records"];
    assert_eq!(fields(&summary), BTreeSet::from(expected));
    assert_eq!(count(&summary, "records"), 3);
    assert_eq!(count(&summary, "bytes"), 5);
    assert_eq!(count(&summary, "durable"), 4);
    let head = room.text("head LOG --key-file KEY");
    assert_eq!(summary["head"], head.trim_end());
}

#[test]
fn cat_begins_where_it_is_told() {
    let room = Room::new();
    for first in [1, 4, 7] {
        room.append("", &lines(first..first + 3));
    }
    let times: Vec<String> = stdout(&room.tool("cat LOG --json"))
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| record["time"].as_str().unwrap().to_owned())
        .collect();
    let after = |time: &str| -> u64 {
        let later = times.iter().position(|it| it.as_str() >= time).unwrap();
        later as u64 + 1
    };
    // Times are printed to the microsecond, and cut: what was sealed then is not before it.
    for (from, first) in [
        ("start", 1),
        ("1", 1),
        ("5", 5),
        ("9", 9),
        ("10", 10),
        ("1000", 10),
        ("1950-01-01T00:00:00Z", 1),
        ("2999-01-01T00:00:00Z", 10),
        (&times[4], after(&times[4])),
        (&times[8], after(&times[8])),
    ] {
        let printed = room.text(&format!("cat LOG --from {from}"));
        let expected = String::from_utf8(lines(first..10)).unwrap();
        assert_eq!(printed, expected, "{from}");
    }
    let backwards = room.text("cat LOG --backwards");
    let expected: String = (1..10).rev().map(|it| format!("line {it}\n")).collect();
    assert_eq!(backwards, expected);
}

#[test]
fn tail_prints_the_last_ones() {
    let room = Room::new();
    room.append("", &lines(1..8));
    room.append("", &lines(8..16));
    for (knobs, first) in [
        ("", 6),
        ("-n 0", 16),
        ("-n 1", 15),
        ("-n 9", 7),
        ("--records 15", 1),
        ("-n 1000", 1),
    ] {
        let printed = room.text(&format!("tail LOG {knobs}"));
        assert_eq!(printed.as_bytes(), lines(first..16), "{knobs}");
    }
    let last: Value = serde_json::from_str(&room.text("tail LOG -n 1 --json")).unwrap();
    assert_eq!(count(&last, "sequence"), 15);
}

#[test]
fn tail_follows_what_another_process_appends() {
    for seal in ["", SEALED] {
        let room = Room::new();
        room.append(seal, b"one\ntwo\n");
        let knobs = key(seal);
        let tail = Running::start(&room.words(&format!("stream tail LOG -f -n 1 {knobs}")));
        assert_eq!(tail.line().as_deref(), Some("two"));
        let words = room.words(&format!("stream append LOG {seal}"));
        let (append, mut input) = Running::feed(&words);
        // Each is there while the writer still waits for more.
        for line in ["three", "", "four"] {
            writeln!(input, "{line}").unwrap();
            assert_eq!(tail.line().as_deref(), Some(line));
        }
        drop(input);
        assert_eq!(append.wait(), 0);
        room.append(seal, b"five\n");
        assert_eq!(tail.line().as_deref(), Some("five"));
        tail.interrupt();
        assert_eq!(tail.wait(), 130);
    }
}

#[test]
fn tail_waits_for_a_stream_that_has_no_records_yet() {
    let room = Room::new();
    room.append("", b"");
    let tail = Running::start(&room.words("stream tail LOG --follow"));
    room.append("", b"at last\n");
    assert_eq!(tail.line().as_deref(), Some("at last"));
    tail.interrupt();
    assert_eq!(tail.wait(), 130);
}

#[test]
fn info_says_what_it_is() {
    let room = Room::new();
    room.append(
        "--seal hmac-sha256 --seal-unit record --key-file KEY",
        b"a\nb\n",
    );
    let info = room.json("info LOG", 0);
    let expected = [
        "broken_bytes",
        "broken_files",
        "bytes",
        "created",
        "epoch",
        "first_record",
        "last_record",
        "path",
        "recycled",
        "seal",
        "seal_unit",
        "segments",
        "stream",
        "version",
    ];
    assert_eq!(fields(&info), BTreeSet::from(expected));
    assert_eq!(info["seal"], "hmac-sha256");
    assert_eq!(info["seal_unit"], "record");
    assert_eq!(info["path"], room.words("LOG"));
    assert_eq!(count(&info, "first_record"), 1);
    assert_eq!(count(&info, "last_record"), 2);
    assert_eq!(count(&info, "segments"), 1);
    assert_eq!(count(&info, "broken_files"), 0);
    let bytes = fs::metadata(&room.segments()[0]).unwrap().len();
    assert_eq!(count(&info, "bytes"), bytes);
    let words = room.text("info LOG");
    assert!(words.contains("records     1 to 2 (2)"), "{words}");
    let stream = info["stream"].as_str().unwrap();
    assert!(words.contains(stream), "{words}");
}

#[test]
fn the_oldest_segments_go_when_there_are_more_bytes_than_are_kept() {
    let room = Room::new();
    let knobs = "--segment-bytes 65536 --sync none";
    // Each part is more than a segment holds.
    for first in [1, 5_001, 10_001, 15_001] {
        room.append(knobs, &lines(first..first + 5_000));
    }
    let whole = room.json("info LOG", 0);
    assert_eq!(count(&whole, "first_record"), 1);
    assert!(count(&whole, "segments") >= 4, "{whole}");
    for first in [20_001, 25_001] {
        room.append(
            &format!("{knobs} --keep-bytes 140000"),
            &lines(first..first + 5_000),
        );
    }
    let kept = room.json("info LOG", 0);
    let first = count(&kept, "first_record");
    assert!(first > 1, "{kept}");
    assert_eq!(count(&kept, "last_record"), 30_000);
    assert_eq!(room.text("cat LOG").as_bytes(), lines(first..30_001));
    assert_eq!(code(&room.tool("verify LOG")), 0);
    room.check_fails("cat LOG --from 1", 2, &["no longer kept"]);
}

#[test]
fn head_is_the_one_that_append_and_verify_say() {
    for seal in SEALS {
        let room = Room::new();
        room.append(seal, &lines(1..6));
        let key = key(seal);
        let head = room.text(&format!("head LOG {key}"));
        let head = head.trim_end();
        assert!(head.starts_with("5:"), "{head}");
        let json = room.json(&format!("head LOG {key}"), 0);
        assert_eq!(json["head"], head);
        assert_eq!(count(&json, "sequence"), 5);
        let verified = room.text(&format!("verify LOG {key} --expect-head {head}"));
        assert!(verified.ends_with(&format!("head {head}\n")), "{verified}");
        // A stream that has grown since still has it.
        room.append(seal, &lines(6..9));
        let report = room.json(&format!("verify LOG {key} --expect-head {head}"), 0);
        assert_eq!(report["whole"], true);
        assert_ne!(report["head"], head);
    }
}

#[test]
fn bench_measures_and_leaves_nothing_behind() {
    let room = Room::new();
    let words = "bench BENCH --messages 3000 --size 200 --writers 2 --json";
    for knobs in [
        "",
        "--seal hmac-sha512 --seal-unit record --sync none",
        SEALED,
    ] {
        let output = room.tool(&format!("{words} {knobs}"));
        let json = json(&output, "streams");
        let runs = json["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0]["verified"], true, "{json}");
        assert_eq!(count(&runs[0], "messages"), 3_000);
        assert_eq!(count(&runs[0], "writers"), 2);
        assert_eq!(count(&runs[0], "size"), 200);
    }
    assert_eq!(fs::read_dir(room.path("BENCH")).unwrap().count(), 0);
    let text = room.tool("bench BENCH --messages 100");
    assert!(
        stdout(&text).contains("whole: 100 messages"),
        "{}",
        stdout(&text)
    );
}

#[test]
fn a_key_seals_by_default() {
    let room = Room::new();
    room.append("--key-file KEY", &lines(1..10));
    let json = room.json("verify LOG --key-file KEY", 0);
    let seal = (&json["seal"], &json["seal_unit"], &json["tags_checked"]);
    assert_eq!(seal, (&"blake3".into(), &"batch".into(), &true.into()));
    let read = room.tool("cat LOG");
    assert_eq!((code(&read), stderr(&read).as_str()), (0, NO_KEY));
    assert_eq!(read.stdout, lines(1..10));
}

#[test]
fn a_key_that_would_not_be_used_is_refused() {
    let room = Room::new();
    let says = ["a key is named", "with the seal none"];
    room.check_fails("append LOG --seal none --key-file KEY", 2, &says);
    room.append("", &lines(1..10));
    room.check_fails("append LOG --key-file KEY", 2, &says);
}

#[test]
fn verify_beside_a_writer_raises_no_false_alarm() {
    const CHECKS: usize = 20;
    let room = Room::new();
    let knobs = "--sync none --key-file KEY --segment-bytes 262144 --keep-bytes 4194304";
    room.append(knobs, &lines(1..1_000));
    let (writer, mut input) = Running::feed(&room.words(&format!("stream append LOG {knobs}")));
    let (begin, begun) = mpsc::sync_channel(0);
    let feeder = thread::spawn(move || {
        let line = [&[b'x'; 200][..], b"\n"].concat();
        // A megabyte beside each check.
        for () in begun {
            (0..5_000).for_each(|_| input.write_all(&line).expect("it reads"));
        }
    });
    for _ in 0..CHECKS {
        begin.send(()).expect("it feeds");
        let json = room.json("verify LOG --key-file KEY", 0);
        assert_eq!(json["whole"], true, "{json}");
    }
    drop(begin);
    feeder.join().expect("no panic");
    assert_eq!(writer.wait(), 0);
}
