//! `freeboard logs`: lines that a log server took, and exit codes.

mod lab;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::Stdio,
};

use lab::{Running, check_usage, code, command, run, stderr, stdout};

#[test]
fn lines_that_logd_took_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("LOG");
    let log = log.display();
    let server = Running::start(&format!("logd {log} --tcp 127.0.0.1:0"));
    let address = server.wait_for("takes lines");
    let address = address
        .split_whitespace()
        .find_map(|word| word.strip_prefix("tcp://"));
    let mut client = TcpStream::connect(address.expect("it names its address")).unwrap();
    client
        .write_all(b"<11>Nov 23 10:00:00 web-1 app: broken\n<14>1 2099-01-01T00:00:00Z web-2 app 7 - - fine\n")
        .unwrap();
    drop(client);
    // Beside the writer.
    let follower = Running::start(&format!("logs {log} --follow --severity err"));
    assert!(follower.wait_for("broken").ends_with(" web-1 app: broken"));
    follower.interrupt();
    assert_eq!(follower.wait(), 130);
    server.interrupt();
    assert_eq!(server.wait(), 0);

    let print = |flags: &str| {
        let output = run(&format!("logs {log} {flags}"));
        assert_eq!(code(&output), 0, "{flags}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(print("").lines().count(), 2);
    assert_eq!(
        print("--since -1h --until now --raw -n 1 --host web-2"),
        "<14>1 2099-01-01T00:00:00Z web-2 app 7 - - fine\n"
    );
    assert_eq!(print("--until -1h"), "");
    let json: serde_json::Value = serde_json::from_str(&print("--json --grep FINE|fine")).unwrap();
    assert_eq!(
        (&json["process"], &json["severity"]),
        (&"7".into(), &"info".into())
    );
    assert!(
        json["source"]
            .as_str()
            .is_some_and(|source| source.starts_with("tcp:127.0.0.1:"))
    );

    let archive = format!("file://{}", directory.path().join("archive").display());
    if cfg!(feature = "archive") {
        let archived = run(&format!("stream archive {log} --to {archive}"));
        assert_eq!(code(&archived), 0, "{}", stderr(&archived));
        let printed = run(&format!("logs {archive} --since -1h"));
        assert_eq!((code(&printed), stdout(&printed)), (0, print("")));
        check_usage(&format!("logs {archive} --follow"), "cannot be followed");
    } else {
        check_usage(&format!("logs {archive}"), "built without archive");
    }
}

#[test]
fn bad_usage_exits_with_2_and_damage_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let file = directory.path().join("app.log");
    fs::write(&file, "one\n").unwrap();
    check_usage(&format!("logs {path}/none"), "there is no log");
    fs::create_dir(directory.path().join("empty")).unwrap();
    check_usage(
        &format!("logs {path}/empty"),
        "neither a stream nor log files",
    );
    let output = run(&format!("logs {} --grep nothing", file.display()));
    assert_eq!((code(&output), &*stdout(&output)), (0, ""));
    assert_eq!(stderr(&output), "-- No entries --\n");
    check_usage(&format!("logs {path} --since soon"), "`soon` is no time");
    check_usage(
        &format!("logs {path} --severity loud"),
        "`loud` is no severity",
    );
    check_usage(&format!("logs {path} --grep ("), "--grep");
    check_usage(&format!("logs {path} --follow"), "cannot be followed");
    fs::write(directory.path().join("app.log.1.gz"), "not packed").unwrap();
    let output = run(&format!("logs {}", file.display()));
    assert_eq!(code(&output), 1);
    let text = stdout(&output);
    assert!(
        text.contains("-- damaged: ") && text.contains(" app.log one\n"),
        "{text}"
    );
    assert!(stderr(&output).contains("damaged: "));
    // On a terminal, and in a file that gets both, the mark is enough.
    let both = fs::File::create(directory.path().join("empty/both")).unwrap();
    let status = command(&format!("logs {}", file.display()))
        .stdout(both.try_clone().unwrap())
        .stderr(both)
        .status();
    assert_eq!(status.unwrap().code(), Some(1));
    let text = fs::read_to_string(directory.path().join("empty/both")).unwrap();
    assert_eq!(text.matches("damaged: ").count(), 1, "{text}");
}

#[test]
fn a_follower_ends_when_the_reader_of_its_pipe_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("app.log");
    fs::write(&file, "one\n").unwrap();
    let mut follower = command(&format!("logs {} --follow", file.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().ends_with(" one"));
    // No further line comes.
    drop(lines);
    assert!(follower.wait().unwrap().success());
}
