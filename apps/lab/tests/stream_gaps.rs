//! What is missing at a stream's beginning, between its segments and at its end is never passed over
//! in silence.

mod lab;

use std::fs;

use lab::{
    code, count,
    room::{Room, lines},
    stderr, stdout,
};

/// A chunk begins with a page.
const PAGE_BYTES: usize = 4_096;

/// A stream of four segments or more.
fn segmented() -> Room {
    let room = Room::new();
    for first in [1, 5_001, 10_001, 15_001] {
        let knobs = "--segment-bytes 65536 --sync none";
        room.append(knobs, &lines(first..first + 5_000));
    }
    assert!(room.segments().len() >= 4);
    room
}

fn check_ends_at_segment_2(room: &Room) {
    let forwards = room.tool("cat LOG");
    assert_eq!(code(&forwards), 1, "{}", stderr(&forwards));
    let says = stderr(&forwards);
    assert!(says.contains("segment 2 is missing"), "{says}");
    let kept = stdout(&forwards).lines().count() as u64;
    assert_eq!(stdout(&forwards).as_bytes(), lines(1..kept + 1));

    let skipped = room.tool("cat LOG --skip-damage");
    assert_eq!(code(&skipped), 1);
    assert!(stdout(&skipped).ends_with("line 20000\n"));
    assert_eq!(code(&room.tool("cat LOG --backwards")), 1);
}

#[test]
fn cat_does_not_end_in_silence_where_a_segment_is_missing() {
    let room = segmented();
    fs::remove_file(&room.segments()[1]).unwrap();
    check_ends_at_segment_2(&room);
}

#[test]
fn cat_does_not_end_in_silence_where_a_segments_header_rotted() {
    let room = segmented();
    let second = &room.segments()[1];
    let mut bytes = fs::read(second).unwrap();
    bytes[20] ^= 1;
    fs::write(second, bytes).unwrap();
    check_ends_at_segment_2(&room);
}

#[test]
fn salvage_names_what_is_lost_at_both_ends() {
    for (rotted, (first, last)) in [("line 1\n", (1, 5)), ("line 11\n", (11, 15))] {
        let room = Room::new();
        for first in [1, 6, 11] {
            room.append("", &lines(first..first + 5));
        }
        let segment = &room.segments()[0];
        let mut bytes = fs::read(segment).unwrap();
        let rotted = rotted.trim_end().as_bytes();
        let at = bytes.windows(rotted.len()).position(|it| it == rotted);
        bytes[at.unwrap()] ^= 1;
        fs::write(segment, bytes).unwrap();
        let report = room.json("salvage LOG COPY", 1);
        let lost = &report["lost"][0];
        assert_eq!(lost[0], first, "{report}");
        assert!(lost[1].as_u64().unwrap() <= last, "{report}");
        assert!(count(&report, "copied") >= 10, "{report}");
    }
}

#[test]
fn a_cut_end_is_told_and_what_is_whole_before_it_shown() {
    let room = Room::new();
    room.append("", &lines(1..6));
    room.append("", &lines(6..11));
    // In the middle of the chunk that begins with line 6.
    let segment = &room.segments()[0];
    let bytes = fs::read(segment).unwrap();
    let line = bytes.windows(6).position(|it| it == b"line 6").unwrap();
    let chunk = line / PAGE_BYTES * PAGE_BYTES;
    fs::write(segment, &bytes[..chunk + 300]).unwrap();
    for (tool, first) in [("cat LOG", 1), ("tail LOG -n 2", 4)] {
        let output = room.tool(tool);
        assert_eq!(code(&output), 1, "{tool}");
        assert_eq!(stdout(&output).as_bytes(), lines(first..6), "{tool}");
        let says = stderr(&output);
        let place = format!("segment 1 at byte {chunk}");
        assert!(says.contains(&place), "{tool}: {says}");
    }
    let report = room.json("salvage LOG COPY", 1);
    assert_eq!(report["lost"][0][0], 6, "{report}");
    let again = room.append("", b"the next\n");
    assert!(stderr(&again).contains("set aside"), "{}", stderr(&again));
}

#[test]
fn a_stream_whose_only_header_rotted_is_damaged_and_can_be_salvaged() {
    for (knobs, key) in [("", ""), ("--seal blake3 --key-file KEY", "--key-file KEY")] {
        let room = Room::new();
        room.append(knobs, &lines(1..6));
        let segment = &room.segments()[0];
        let mut bytes = fs::read(segment).unwrap();
        bytes[20] ^= 1;
        fs::write(segment, bytes).unwrap();
        let verified = room.tool(&format!("verify LOG {key}"));
        assert_eq!(code(&verified), 1, "{}", stderr(&verified));
        assert!(stdout(&verified).contains("DAMAGED: 5 records"));
        assert_eq!(code(&room.tool(&format!("cat LOG {key}"))), 1);
        assert_eq!(code(&room.tool(&format!("tail LOG {key}"))), 1);
        room.tool(&format!("salvage LOG COPY {key}"));
        assert_eq!(
            room.text(&format!("cat COPY {key}")).as_bytes(),
            lines(1..6)
        );
    }
}
