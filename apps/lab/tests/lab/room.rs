//! A folder with a stream and its key, and the tools that are run on them.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    process::{Output, Stdio},
    time::Instant,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{DEADLINE, code, command, count, run, run_with_input, stderr, stdout};

/// Seals a stream with the room's key, which is named where the text says `KEY`.
pub(crate) const SEALED: &str = "--seal blake3 --key-file KEY";

/// What is said of a sealed stream that is read without its key.
pub(crate) const NO_KEY: &str = "no key: checksums are checked, and tags are not\n";

/// The folder; what is in it goes when it is dropped.
pub(crate) struct Room {
    folder: TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        let room = Self {
            folder: tempfile::tempdir().expect("a folder for temporary files"),
        };
        room.key("KEY", "a key of the tests, which is no secret\n");
        fs::create_dir(room.path("BENCH")).expect("there is room");
        room
    }

    /// Writes a key file that only its owner can read.
    pub(crate) fn key(&self, name: &str, text: &str) {
        use std::io::Write;
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        let file = file.open(self.path(name)).expect("it is new");
        (&file).write_all(text.as_bytes()).expect("there is room");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The words with what is written in capitals named by its path: `LOG`, `COPY`, `KEY`, `OTHER`, and
    /// `BENCH`, which is an empty directory.
    pub(crate) fn words(&self, words: &str) -> String {
        let path = |word: &str| -> String {
            let name = word.split('/').next().unwrap_or(word);
            if ["LOG", "COPY", "KEY", "OTHER", "BENCH"].contains(&name) {
                self.path(word).display().to_string()
            } else {
                word.to_owned()
            }
        };
        let words: Vec<String> = words.split_whitespace().map(path).collect();
        words.join(" ")
    }

    /// Runs a stream tool to its end.
    pub(crate) fn tool(&self, words: &str) -> Output {
        run(&self.words(&format!("stream {words}")))
    }

    /// As [`tool`](Self::tool), with standard output on a full disk.
    pub(crate) fn tool_on_full_disk(&self, words: &str) -> Output {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = command(&self.words(&format!("stream {words}")));
        command.stdin(Stdio::null());
        command.stdout(full.expect("Linux has one"));
        command.stderr(Stdio::piped());
        command.output().expect("the binary was built")
    }

    /// Appends to `LOG`, which succeeds.
    pub(crate) fn append(&self, knobs: &str, input: &[u8]) -> Output {
        let words = self.words(&format!("stream append LOG {knobs}"));
        let output = run_with_input(&words, input);
        assert_eq!(code(&output), 0, "{knobs}: {}", stderr(&output));
        output
    }

    /// What a tool that succeeded wrote; it says nothing else but that it had no key for a sealed stream.
    pub(crate) fn text(&self, words: &str) -> String {
        let output = self.tool(words);
        assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
        let said = stderr(&output).replacen(NO_KEY, "", 1);
        assert_eq!(said, "", "{words}");
        String::from_utf8(output.stdout).expect("text was appended")
    }

    /// The JSON of a tool that ended with this code.
    pub(crate) fn json(&self, words: &str, exit_code: i32) -> Value {
        let output = self.tool(&format!("{words} --json"));
        assert_eq!(code(&output), exit_code, "{words}: {}", stderr(&output));
        let json = serde_json::from_slice(&output.stdout);
        json.unwrap_or_else(|error| panic!("{words}: {error}: {}", stdout(&output)))
    }

    /// Checks that the tool ends with this code and with these words on standard error.
    pub(crate) fn check_fails(&self, words: &str, exit_code: i32, says: &[&str]) {
        check_failed(&self.tool(words), words, exit_code, says);
    }

    /// Waits until so many records of `LOG` can be read; how many there are then.
    pub(crate) fn wait_for_records(&self, records: u64) -> u64 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // At first there is no stream.
            let output = self.tool("info LOG --json");
            let info: Option<Value> = serde_json::from_slice(&output.stdout).ok();
            match info.map(|info| count(&info, "last_record")) {
                Some(last) if last >= records => return last,
                _ => assert!(Instant::now() < deadline, "no {records} records"),
            }
        }
    }

    /// The segment files of `LOG`, the oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path("LOG")).expect("it is there");
        let files = files.map(|file| file.expect("it is readable").path());
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
        let mut segments: Vec<PathBuf> = files.filter(is_segment).collect();
        segments.sort();
        segments
    }
}

/// Checks that a run ended with this code and with these words on standard error.
pub(crate) fn check_failed(output: &Output, what: &str, exit_code: i32, says: &[&str]) {
    let text = stderr(output);
    assert_eq!(code(output), exit_code, "{what}: {text}");
    assert!(text.starts_with("error: "), "{what}: {text}");
    for says in says {
        assert!(text.contains(says), "{what}: {says:?} in {text}");
    }
    assert!(!text.contains("panicked"), "{what}: {text}");
}

/// Numbered lines, of which none is like another.
pub(crate) fn lines(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let lines: String = numbers.map(|number| format!("line {number}\n")).collect();
    lines.into_bytes()
}
