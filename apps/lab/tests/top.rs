//! `freeboard top` where there is no terminal: one frame, or a clear word.

mod lab;

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use lab::{code, command, run, stderr, stdout};

/// Answers so many requests with this, and gives back the first one's lines.
fn serve(status: &str, body: &str, requests: usize) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let server = thread::spawn(move || {
        let mut first = None;
        for _ in 0..requests {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            first.get_or_insert(request);
            stream.write_all(answer.as_bytes()).expect("it is read");
        }
        first.expect("at least one was served")
    });
    (url, server)
}

const FRAME: &str = r#"{"at_ms": 1, "at_ns": 1, "board": 1, "systems": ["office"],
    "system": {"name": "office", "is_alive": true, "actors": {"total": 1, "matched": 1,
    "rows": [{"id": 1, "name": "clerk", "depth": 17}]}}}"#;

#[test]
fn without_a_terminal_it_says_what_there_is_instead() {
    let output = run("top http://127.0.0.1:9");
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    assert!(said.contains("--once") && said.contains("--json"), "{said}");
    assert!(stdout(&output).is_empty());
}

#[test]
fn bad_usage_exits_with_2() {
    for (arguments, says) in [
        ("top https://127.0.0.1:7700", "not https"),
        ("top http://127.0.0.1:7700/metrics", "no path"),
        ("top --once --json", "--json"),
        ("top --hz 0", "--hz"),
        ("top --hz 11", "--hz"),
        ("top --rows 201", "--rows"),
        ("top --sort colour", "queue_p99"),
        (
            "top --once --token-file /nonexistent/token",
            "/nonexistent/token",
        ),
        ("top --once --token-file /dev/null", "token is empty"),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments}");
        let said = stderr(&output);
        assert!(said.contains(says), "{arguments}: {said}");
    }
}

/// A file with a token, and these rights.
fn token_file(folder: &Path, mode: u32) -> PathBuf {
    let file = folder.join("token");
    fs::write(&file, "of-the-file\n").expect("it is ours");
    fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
    file
}

#[test]
fn a_token_that_others_have_access_to_is_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    for mode in [0o604, 0o644, 0o602, 0o666] {
        let file = token_file(folder.path(), mode);
        for words in ["top --once --token-file", "board --board-token-file"] {
            let output = command(words).arg(&file).output();
            let output = output.expect("the binary was built");
            let said = stderr(&output);
            assert_eq!(code(&output), 2, "{words}, {mode:o}: {said}");
            assert!(said.contains("chmod 600"), "{words}, {mode:o}: {said}");
        }
    }
}

#[test]
fn nobody_there_exits_with_1() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    drop(listener);
    let output = run(&format!("top --once {url}"));
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    assert!(
        said.contains(&url) && said.contains("unreachable"),
        "{said}"
    );
}

#[test]
fn one_frame_is_printed_as_text() {
    let (url, server) = serve("200 OK", FRAME, 2);
    let output = run(&format!("top --once --sort name {url}"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("office") && text.contains("clerk"), "{text}");
    let request = server.join().expect("it does not panic");
    assert!(request[0].contains("sort=name&order=asc"), "{request:?}");
}

#[test]
fn one_frame_is_printed_as_json_and_the_token_goes_along() {
    let (url, server) = serve("200 OK", FRAME, 1);
    let folder = tempfile::tempdir().expect("there is room");
    let file = token_file(folder.path(), 0o640);
    let output = command(&format!("top --json --rows 7 {url} --token-file"))
        .arg(&file)
        .env("FREEBOARD_TOKEN", "of-the-variable")
        .output()
        .expect("the binary was built");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["system"]["actors"]["rows"][0]["depth"], 17);
    let request = server.join().expect("it does not panic");
    assert!(request[0].contains("limit=7"), "{request:?}");
    let sent = |line: &String| line.eq_ignore_ascii_case("authorization: bearer of-the-file");
    assert!(request.iter().any(sent), "{request:?}");
}

#[test]
fn a_question_that_is_refused_is_bad_usage() {
    for (status, wanted, said) in [
        ("400 Bad Request", 2, "it says why"),
        ("401 Unauthorized", 2, "--token-file"),
        ("404 Not Found", 2, "it says why"),
        ("503 Service Unavailable", 1, "it says why"),
    ] {
        let (url, server) = serve(status, "it says why", 1);
        let output = run(&format!("top --once --filter depth>many {url}"));
        assert_eq!(code(&output), wanted, "{status}");
        assert!(stderr(&output).contains(said), "{status}");
        server.join().expect("it does not panic");
    }
}
