//! A real log, replayed, comes out whole.

mod lab;

use std::{fs, path::Path};

use lab::{assert_whole, count, run, run_with_input, runs};

/// Lines as logs have them: long, empty, doubled, with carriage returns, and bytes that are no text.
fn log(lines: usize) -> Vec<Vec<u8>> {
    (0..lines)
        .map(|line| match line % 8 {
            0 => Vec::new(),
            1 => b"\xff\xfe\x00 not UTF-8 \x80".to_vec(),
            2 => b"Nov 20 12:00:01 host sshd[812]: Accepted publickey\r".to_vec(),
            3 => vec![b'x'; 70_000],
            4 => b"the same line".to_vec(),
            5 => format!("{line}: {}", "y".repeat(line % 90)).into_bytes(),
            6 => b"\t \xc3\xa9\xe2\x82\xac ".to_vec(),
            _ => format!("Nov 20 12:00:{:02} host app: {line}", line % 60).into_bytes(),
        })
        .collect()
}

fn joined(lines: &[Vec<u8>], ends_with_feed: bool) -> Vec<u8> {
    let mut bytes = lines.join(&b'\n');
    if ends_with_feed {
        bytes.push(b'\n');
    }
    bytes
}

/// The file holds every line once, and each sender's lines in their order.
fn check_file(path: &Path, lines: &[Vec<u8>], senders: usize) {
    let bytes = fs::read(path).unwrap();
    let text = bytes.strip_suffix(b"\n").expect("every line is ended");
    let found: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    assert_eq!(found.len(), lines.len());
    if senders == 1 {
        assert!(found.iter().eq(lines.iter()), "one sender keeps the order");
    }
    let (mut found, mut expected) = (found, lines.iter().map(Vec::as_slice).collect::<Vec<_>>());
    found.sort_unstable();
    expected.sort_unstable();
    assert!(found == expected, "the same lines, each as often");
}

#[test]
fn a_log_file_comes_out_whole_whoever_sends_it() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.log"), folder.path().join("out.log"));
    let lines = log(203);
    for ends_with_feed in [true, false] {
        fs::write(&input, joined(&lines, ends_with_feed)).unwrap();
        for senders in [1, 4, 300] {
            for knobs in [
                "--route direct",
                "--route direct --sink raw --hold",
                "--receive scan",
                "--dam credit:3",
                "--dam poll:20:1ms --receive scan",
            ] {
                let done = run(&format!(
                    "lab flood --senders {senders} --input {} --file {} --json - {knobs}",
                    input.display(),
                    output.display()
                ));
                let run = &runs(&done)[0];
                assert_whole(run, lines.len() as u64);
                assert_eq!(count(run, "messages"), lines.len().div_ceil(senders) as u64);
                check_file(&output, &lines, senders);
            }
        }
    }
}

#[test]
fn standard_input_is_a_log_too() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.log");
    let lines = log(50);
    let arguments = format!(
        "lab flood --senders 1 --route direct --json - --input - --file {}",
        output.display()
    );
    let done = run_with_input(&arguments, &joined(&lines, false));
    assert_whole(&runs(&done)[0], 50);
    check_file(&output, &lines, 1);
}

#[test]
fn one_sender_copies_a_log_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.log");
    for bytes in [&b"\n"[..], b"\n\n\n", b"a\n", b"\r\n\xff\n\n"] {
        let arguments = format!(
            "lab flood --senders 1 --dam credit:2 --input - --file {}",
            output.display()
        );
        let done = run_with_input(&arguments, bytes);
        assert_eq!(lab::code(&done), 0, "{}", lab::stderr(&done));
        assert_eq!(fs::read(&output).unwrap(), bytes);
    }
}

#[test]
fn four_ways_replay_the_same_log() {
    let done = run_with_input(
        "lab flood --senders 3 --input - --json -",
        &joined(&log(100), true),
    );
    let runs = runs(&done);
    assert_eq!(runs.len(), 4);
    for run in &runs {
        assert_whole(run, 100);
    }
}
