//! The file of settings.

use std::{fs, path::Path, time::Duration};

use freeboard_logd::{InputConfig, Policy, settings::Settings};

use crate::common::stream_of;

const FULL: &str = r#"
status = "127.0.0.1:9514"
unhealthy-after = "500ms"
connections-max = 100
idle-time = "1h 30m"
line-max = "8 KiB"
summary-interval = "5s"
repeat-time = "2s"

[source]
lines = 1000
bytes = "2 MiB"

[group.normal]
policy = "sample:10"
reservoir-batches = 7
reservoir = "1 MB"

[[tcp]]
address = "127.0.0.1:1514"
framing = "octet-counted"

[[udp]]
address = "127.0.0.1:1514"
receive-buffer = 4096
senders-max = 9

[[unix]]
path = "log"
mode = 0o600

[[unix-stream]]
path = "log.stream"

[[http]]
address = "127.0.0.1:8514"
body-max = "1 GiB"

[[stream]]
path = "LOG"
sync = "interval:100"
segment = "1 MiB"
keep = "10 GiB"
keep-time = "720h"

[[file]]
path = "app.log"
rotate = "daily"
rotate-size = "100 MB"
gzip = true
keep-files = 7
keep = "1 GB"
sync = true
time-zone = "UTC"
spill = { memory = "1 MiB", durable = true, spool = { path = "SPILL", size = "1 GiB", full = "wait" } }

[[stdout]]
form = "json"

[[relay]]
url = "http://127.0.0.1:8514"

[[relay]]
name = "west"
url = "http://127.0.0.2:8514"
spool = { path = "WEST" }
requests-max = 1
request = "64 KiB"
timeout = "5s"
"#;

#[test]
fn each_setting_of_a_file_is_applied() {
    let settings = Settings::parse(FULL, Path::new("logd.toml")).unwrap();
    assert_eq!(settings.unhealthy_after(), Duration::from_millis(500));
    let config = settings.config().unwrap();
    assert_eq!(config.connections_max, 100);
    assert_eq!(config.idle_time, Some(Duration::from_secs(5_400)));
    assert_eq!(config.line_bytes_max, 8_192);
    assert_eq!(config.summary_interval, Duration::from_secs(5));
    assert_eq!(config.repeat_time, Duration::from_secs(2));
    assert_eq!((config.source.lines, config.source.bytes), (1_000, 2 << 20));
    let policies = config.groups.map(|group| group.policy);
    let sample = "sample:10".parse().unwrap();
    assert_eq!(
        policies,
        [Policy::Wait, Policy::Wait, sample, Policy::DropOldest]
    );
    let reservoir = config.groups[2].reservoir;
    assert_eq!((reservoir.messages, reservoir.bytes), (7, 1_000_000));
    assert_eq!(config.tcp.len(), 1);
    assert_eq!(config.inputs.len(), 4);
    let InputConfig::UnixDatagram { mode, .. } = &config.inputs[1] else {
        panic!("{:?}", config.inputs);
    };
    assert_eq!(*mode, Some(0o600));
    let names: Vec<_> = config.sinks.iter().map(|sink| sink.name.as_str()).collect();
    assert_eq!(names, ["stream", "file", "stdout", "west.spool"]);
    assert!(
        config.sinks[1]
            .spill
            .as_ref()
            .is_some_and(|it| it.is_durable)
    );
}

/// Checks that a text is refused with this message.
fn check_refused(text: &str, message: &str) {
    let read = Settings::parse(text, Path::new("logd.toml"));
    let error = read.and_then(|settings| settings.check()).unwrap_err();
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn a_mistake_is_reported_with_its_place_and_a_suggestion() {
    for (text, message) in [
        (
            "[[tcp]]\nadress = \"127.0.0.1:1\"\n",
            "logd.toml:2:1: unknown key `adress`; is it `address`?",
        ),
        (
            "[[tcp]]\naddress = \"localhost\"\n",
            "logd.toml:2:11: invalid socket address",
        ),
        ("line-max = \"64 Kib\"", "logd.toml:1:12: invalid value"),
        ("idle-time = 10", "logd.toml:1:13: invalid type"),
        ("idle-time = \"10\"", "logd.toml:1:13: invalid value"),
        (
            "[group.debug]\npolicy = \"drop\"",
            "logd.toml:2:10: a policy is wait,",
        ),
        (
            "[[stream]]\n\n[[tcp]]",
            "logd.toml:1:1: missing field `path`",
        ),
        ("[[tcp]\n", "logd.toml:1:"),
        ("colour = \"blue\"", "logd.toml:1:1: unknown key `colour`"),
        (
            "[[file]]\npath = \"a\"\nrotate = \"weekly\"",
            "logd.toml:3:10: unknown variant `weekly`",
        ),
    ] {
        check_refused(text, message);
    }
}

#[test]
fn settings_that_do_not_fit_together_are_refused() {
    let tcp = "[[tcp]]\naddress = \"127.0.0.1:1514\"\n";
    for (text, message) in [
        ("[[stream]]\npath = \"LOG\"", "there is no input"),
        (tcp, "there is no sink"),
        (
            &format!("{tcp}[[stdout]]\n[[stdout]]"),
            "two sinks have the name `stdout`",
        ),
        (
            &format!("{tcp}[[relay]]\nurl = \"http://127.0.0.1:1\""),
            "the relay relay needs a `spool`",
        ),
        (
            &format!("{tcp}[[relay]]\nurl = \"ftp://127.0.0.1:1\""),
            "`ftp://127.0.0.1:1` is no address",
        ),
        (
            &format!("{tcp}[[file]]\npath = \"no/such/directory/log\""),
            "no/such/directory/log cannot be written: no/such/directory: No such file",
        ),
        (&format!("{tcp}[[file]]\npath = \"/\""), "/ is a directory"),
        (
            &format!("{tcp}[[stream]]\npath = \"/dev/null/LOG\""),
            "/dev/null/LOG cannot be written: /dev/null is not a directory",
        ),
        (
            &format!("summary-interval = \"0s\"\n{tcp}[[stdout]]"),
            "an interval is longer than 0",
        ),
        (
            &format!("idle-time = \"0s\"\n{tcp}[[stdout]]"),
            "the idle time is longer than 0",
        ),
        (
            &format!(
                "{tcp}[[stdout]]\n[[tls]]\naddress = \"127.0.0.1:0\"\ncertificate = \"c\"\nkey = \"k\"\nhandshake-time = \"0s\""
            ),
            "the handshake time is longer than 0",
        ),
        (
            &format!("{tcp}[[stream]]\npath = \"LOG\"\nkey-file = \"missing\""),
            "the stream stream: ",
        ),
    ] {
        check_refused(text, message);
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = Settings::read(Path::new("no/logd.toml")).unwrap_err();
    assert!(error.to_string().starts_with("no/logd.toml: "), "{error}");
}

#[test]
fn a_check_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let text = stream_of(&directory.path().join("a/b/LOG"));
    let settings = Settings::parse(&text, Path::new("logd.toml")).unwrap();
    assert_eq!(settings.check().unwrap(), "1 input, 1 sink");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
