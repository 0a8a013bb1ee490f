//! What the stream tools refuse, and how they say so: keys, locks, paths, full disks, bad usage.

mod lab;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use lab::{
    Running, check_usage, code, command,
    room::{Room, SEALED, check_failed, lines},
    run_with_input, stderr, stdout,
};

/// Every tool that reads a stream.
const READERS: [&str; 6] = [
    "cat LOG",
    "tail LOG",
    "info LOG",
    "head LOG",
    "verify LOG",
    "salvage LOG COPY",
];

/// Checks that an append of a line is refused, and that it changed nothing.
fn check_refused(room: &Room, knobs: &str, exit_code: i32, says: &[&str]) {
    let before = room.tool("cat LOG").stdout;
    let words = room.words(&format!("stream append LOG {knobs}"));
    let output = run_with_input(&words, b"not to be taken\n");
    check_failed(&output, &words, exit_code, says);
    assert_eq!(stdout(&output), "", "{words}");
    assert_eq!(room.tool("cat LOG").stdout, before, "{words}");
}

#[test]
fn a_wrong_key_is_told_from_damage() {
    let room = Room::new();
    room.append(SEALED, &lines(1..4));
    room.key("OTHER", "another key, of as little secrecy");
    let says = ["the key is not the one that segment 1 was sealed with"];
    for tool in READERS {
        room.check_fails(&format!("{tool} --key-file OTHER"), 2, &says);
    }
    assert!(!room.path("COPY").exists());
    check_refused(&room, "--seal blake3 --key-file OTHER", 2, &says);
}

#[test]
fn sealing_needs_a_key_and_there_is_no_default_one() {
    let room = Room::new();
    for seal in ["hmac-sha256", "hmac-sha512", "hmac-ripemd160", "blake3"] {
        for unit in ["record", "batch"] {
            let words = room.words(&format!(
                "stream append LOG --seal {seal} --seal-unit {unit}"
            ));
            let output = run_with_input(&words, b"a\n");
            let says = [seal, "needs a key", "--key-file", "--key-env"];
            check_failed(&output, &words, 2, &says);
            assert!(!room.path("LOG").exists(), "nothing was begun");
        }
    }
}

#[test]
fn a_stream_keeps_its_seal() {
    let room = Room::new();
    room.append(SEALED, b"a\n");
    // Said once, it holds.
    room.append("--key-file KEY", b"b\n");
    check_refused(&room, "", 2, &["sealing with blake3 needs a key"]);
    for knobs in [
        "--seal none --key-file KEY",
        "--seal hmac-sha256 --key-file KEY",
        "--seal blake3 --seal-unit record --key-file KEY",
    ] {
        check_refused(&room, knobs, 2, &["sealed with blake3 by batch"]);
    }
}

#[test]
fn a_key_that_others_can_have_is_refused() {
    let room = Room::new();
    room.append(SEALED, &lines(1..4));
    let inside = "--seal blake3 --key-file LOG/KEY";
    fs::copy(room.path("KEY"), room.path("LOG/KEY")).unwrap();
    check_refused(&room, inside, 2, &["inside the stream's directory"]);
    for tool in READERS {
        let words = format!("{tool} --key-file LOG/KEY");
        room.check_fails(&words, 2, &["inside the stream's directory"]);
    }
    room.key("OTHER", "a key that every user can read");
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(room.path("OTHER"), open).unwrap();
    let says = ["can be read by every user", "chmod"];
    check_refused(&room, "--seal blake3 --key-file OTHER", 2, &says);
}

#[test]
fn a_key_that_is_none_is_refused() {
    let room = Room::new();
    room.append("", b"a\n");
    room.key("OTHER", "too short\n");
    for (knobs, says) in [
        ("--key-file OTHER", "bytes"),
        ("--key-file COPY", "cannot be read"),
        ("--key-file LOG", "LOG"),
        ("--key-env FREEBOARD_NO_SUCH_KEY", "FREEBOARD_NO_SUCH_KEY"),
    ] {
        check_refused(&room, &format!("--seal blake3 {knobs}"), 2, &[says]);
        room.check_fails(&format!("verify LOG {knobs}"), 2, &[says]);
    }
}

#[test]
fn the_key_may_come_from_the_environment() {
    let room = Room::new();
    let with_key = |words: &str| {
        let mut command = command(&room.words(&format!("stream {words} --key-env LAB_KEY")));
        // The same as the file's, without the line feed.
        command.env("LAB_KEY", "a key of the tests, which is no secret");
        command.stdin(Stdio::null()).output().unwrap()
    };
    room.append(SEALED, &lines(1..4));
    let verified = with_key("verify LOG");
    assert_eq!(code(&verified), 0, "{}", stderr(&verified));
    assert!(!stdout(&verified).contains("not checked"));
    assert_eq!(code(&with_key("append LOG --seal blake3")), 0);
}

#[test]
fn a_stream_has_one_writer_at_a_time() {
    let room = Room::new();
    let (append, mut input) = Running::feed(&room.words("stream append LOG"));
    writeln!(input, "first").unwrap();
    room.wait_for_records(1);
    check_refused(&room, "", 1, &["another writer", "stream.lock"]);
    // Readers are not kept out, and the writer goes on.
    assert_eq!(room.text("cat LOG"), "first\n");
    assert_eq!(code(&room.tool("verify LOG")), 0);
    writeln!(input, "second").unwrap();
    drop(input);
    assert_eq!(append.wait(), 0);
    room.append("", b"third\n");
    assert_eq!(room.text("cat LOG"), "first\nsecond\nthird\n");
}

#[test]
fn a_path_that_cannot_be_a_stream_is_named() {
    let room = Room::new();
    fs::write(room.path("OTHER"), "a file\n").unwrap();
    for path in ["OTHER", "OTHER/below", "/dev/full", "/proc/freeboard"] {
        let named = room.words(path);
        let words = room.words(&format!("stream append {path}"));
        let output = run_with_input(&words, b"a\n");
        check_failed(&output, &words, 1, &[&named]);
        for tool in ["cat", "tail", "info", "head", "verify", "bench"] {
            room.check_fails(&format!("{tool} {path}"), 2, &[&named]);
        }
        room.check_fails(&format!("salvage {path} COPY"), 2, &[&named]);
    }
    assert_eq!(fs::read_to_string(room.path("OTHER")).unwrap(), "a file\n");
}

#[test]
fn a_copy_is_not_salvaged_to_where_something_is_or_nothing_can_be() {
    let room = Room::new();
    room.append("", &lines(1..4));
    room.check_fails("salvage LOG LOG", 2, &["is not empty"]);
    fs::write(room.path("OTHER"), "a file\n").unwrap();
    for to in ["OTHER", "OTHER/below", "/proc/freeboard"] {
        let output = room.tool(&format!("salvage LOG {to}"));
        assert_ne!(code(&output), 0, "{to}");
        let says = stderr(&output);
        assert!(says.starts_with("error: "), "{to}: {says}");
        assert!(says.contains(&room.words(to)), "{to}: {says}");
    }
    assert_eq!(room.text("cat LOG").as_bytes(), lines(1..4));
}

#[test]
fn what_is_no_stream_cannot_be_checked() {
    let room = Room::new();
    fs::create_dir(room.path("OTHER")).unwrap();
    fs::write(room.path("OTHER/notes"), "no stream\n").unwrap();
    for tool in ["info", "head", "verify"] {
        room.check_fails(&format!("{tool} OTHER"), 2, &["there is no stream"]);
        room.check_fails(&format!("{tool} LOG"), 2, &["No such file"]);
    }
    for tool in ["cat LOG", "tail LOG", "tail LOG -f"] {
        room.check_fails(tool, 2, &["No such file"]);
    }
    room.check_fails("salvage OTHER COPY", 2, &["there is no stream"]);
    #[cfg(not(feature = "archive"))]
    for tool in [
        "archive LOG --to file:///COPY --follow",
        "restore file:///COPY LOG",
    ] {
        let expected = "this binary was built without archive: build it with --features archive";
        room.check_fails(tool, 2, &[expected]);
    }
    assert!(!room.path("COPY").exists());
}

#[test]
fn a_full_disk_at_standard_output_is_an_error() {
    let room = Room::new();
    room.append("", &lines(1..50_001));
    for tool in [
        "cat LOG",
        "cat LOG --json",
        "cat LOG --backwards",
        "tail LOG",
        "tail LOG -f",
        "info LOG",
        "head LOG",
        "verify LOG",
        "verify LOG --json",
        "salvage LOG COPY",
        "append LOG --json",
        "bench BENCH --messages 100 --json",
        "bench BENCH --messages 100",
    ] {
        let output = room.tool_on_full_disk(tool);
        let says = stderr(&output);
        assert_eq!(code(&output), 1, "{tool}: {says}");
        assert!(says.contains("No space left"), "{tool}: {says}");
        assert!(!says.contains("panicked"), "{tool}: {says}");
        let what = ["standard output", "the results"];
        assert!(what.iter().any(|it| says.contains(it)), "{tool}: {says}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let room = Room::new();
    // More than a pipe takes.
    room.append("", &lines(1..50_001));
    for tool in ["cat LOG", "cat LOG --backwards", "tail LOG -f -n 50000"] {
        let mut child = command(&room.words(&format!("stream {tool}")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        assert!(first.starts_with("line "), "{tool}");
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), stderr(&output)),
            (0, String::new()),
            "{tool}"
        );
    }
}

#[test]
fn a_line_that_is_too_long_ends_the_append_and_those_before_it_are_kept() {
    let room = Room::new();
    let knobs = "--line-bytes-max 8";
    let words = room.words(&format!("stream append LOG {knobs}"));
    let output = run_with_input(&words, b"a\n12345678\n123456789\nafter\n");
    assert_eq!(code(&output), 1);
    let says = stderr(&output);
    assert!(says.contains("line 3 has more than 8 bytes"), "{says}");
    assert!(
        says.contains("the 2 lines before it were appended"),
        "{says}"
    );
    assert!(says.contains("--line-bytes-max"), "{says}");
    assert_eq!(room.text("cat LOG"), "a\n12345678\n");
    room.append(knobs, b"12345678");
    assert_eq!(room.text("cat LOG"), "a\n12345678\n12345678\n");
    // The longest that can be asked for.
    room.append("--line-bytes-max 32505856", &vec![b'x'; 32_505_856]);
}

#[test]
fn an_input_without_an_end_of_line_does_not_fill_memory() {
    let room = Room::new();
    let mut command = command(&room.words("stream append LOG --line-bytes-max 100000"));
    command.stdin(fs::File::open("/dev/zero").unwrap());
    let output = command.output().unwrap();
    assert_eq!(code(&output), 1);
    let says = stderr(&output);
    assert!(
        says.contains("line 1 has more than 100,000 bytes"),
        "{says}"
    );
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    let room = Room::new();
    room.append("", &lines(1..4));
    for (words, says) in [
        ("polish LOG", "polish"),
        ("append", "PATH"),
        ("append LOG --seal md5", "--seal"),
        ("append LOG --seal-unit page", "--seal-unit"),
        ("append LOG --sync sometimes", "--sync"),
        ("append LOG --segment-bytes 1", "segment"),
        ("append LOG --keep-age never", "--keep-age"),
        ("append LOG --keep-bytes -5", "-5"),
        ("append LOG --line-bytes-max 0", "--line-bytes-max"),
        ("append LOG --line-bytes-max 32505857", "--line-bytes-max"),
        ("cat LOG --from soon", "--from"),
        ("cat LOG --from -1", "-1"),
        ("cat LOG --from 0", "record 0"),
        ("cat LOG --from 2 --backwards", "--backwards"),
        ("cat LOG --backwards --skip-damage", "--skip-damage"),
        ("cat LOG --key-file a --key-env b", "--key-env"),
        ("tail LOG -n -1", "-1"),
        ("tail LOG -n many", "--records"),
        ("verify LOG --expect-head yesterday", "--expect-head"),
        ("verify LOG --expect-head 3:00", "--expect-head"),
        ("salvage LOG", "TO"),
        ("bench BENCH --writers 0", "--writers"),
        ("bench BENCH --writers 65", "--writers"),
        ("bench BENCH --size 0", "--size"),
        ("bench BENCH --size 16777217", "--size"),
        ("bench BENCH --messages 0", "--messages"),
        ("bench BENCH --messages 18446744073709551615", "--messages"),
        ("bench BENCH --messages 1000000000000", "--messages"),
        ("bench BENCH --seal md5", "--seal"),
    ] {
        let words = room.words(&format!("stream {words}"));
        check_usage(&words, says);
    }
}
