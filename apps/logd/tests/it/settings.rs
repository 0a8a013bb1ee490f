//! The file of settings.

use std::{fs, path::Path, time::Duration};

use freeboard_logd::{InputConfig, Policy, settings::Settings};

use crate::common::stream_of;

const FULL: &str = include_str!("../settings/full.toml");

#[test]
fn each_setting_of_a_file_is_applied() {
    let settings = Settings::parse(FULL, Path::new("logd.toml")).unwrap();
    let config = settings.config().unwrap();
    assert_eq!(config.unhealthy_after, Duration::from_millis(500));
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
    assert_eq!(config.inputs.len(), 5);
    let InputConfig::UnixDatagram(unix) = &config.inputs[2] else {
        panic!("{:?}", config.inputs);
    };
    assert_eq!(unix.mode, Some(0o600));
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
            "logd.toml:2:11: `address`: `localhost` is no ADDRESS:PORT: ",
        ),
        (
            "line-max = \"64 Kib\"",
            "logd.toml:1:12: `line-max`: invalid value",
        ),
        (
            "idle-time = 10",
            "logd.toml:1:13: `idle-time`: invalid type",
        ),
        (
            "idle-time = \"10\"",
            "logd.toml:1:13: `idle-time`: invalid value",
        ),
        (
            "[group.debug]\npolicy = \"drop\"",
            "logd.toml:2:10: `policy`: a policy is wait,",
        ),
        (
            "[[stream]]\n\n[[tcp]]",
            "logd.toml:1:1: missing field `path`",
        ),
        ("[[tcp]\n", "logd.toml:1:"),
        (
            "[[tcp]]\naddress = \":1514\"",
            "logd.toml:2:11: `address`: `:1514` has no host; write 0.0.0.0:1514",
        ),
        (
            "line-max = \"9 MiB\"",
            "logd.toml:1:12: `line-max`: a line has at most 8 MiB",
        ),
        (
            "[source]\nlines = 0",
            "logd.toml:2:9: `lines`: invalid value: integer `0`",
        ),
        (
            "connections-max = 0",
            "logd.toml:1:19: `connections-max`: invalid value: integer `0`",
        ),
        (
            "summary-interval = \"0s\"",
            "logd.toml:1:20: `summary-interval`: invalid value: string \"0s\", expected a positive time",
        ),
        (
            "[[http]]\naddress = \"127.0.0.1:1\"\nbody-max = 0",
            "logd.toml:3:12: `body-max`: invalid value: integer `0`, expected a positive number of bytes",
        ),
        ("colour = \"blue\"", "logd.toml:1:1: unknown key `colour`"),
        (
            "[[file]]\npath = \"a\"\nrotate = \"weekly\"",
            "logd.toml:3:10: `rotate`: unknown variant `weekly`",
        ),
    ] {
        check_refused(text, message);
    }
}

#[test]
fn settings_that_do_not_fit_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().display();
    fs::write(directory.path().join("plain"), "").unwrap();
    let tcp = "[[tcp]]\naddress = \"127.0.0.1:1514\"\n";
    let tcp_and = |further: &str| format!("{tcp}{further}");
    let stream_and = |further: &str| {
        format!(
            "[[stream]]\npath = \"{folder}/LOG\"\n[[tcp]]\naddress = \"127.0.0.1:1514\"\n{further}"
        )
    };
    let spool = |path: &str| {
        stream_and(&format!(
            "[[relay]]\nurl = \"http://127.0.0.1:1\"\nspool = {{ path = \"{folder}/{path}\" }}"
        ))
    };
    let name = |path: &str| format!("{folder}/{path}");
    let long = "s".repeat(108);
    let fifo = std::process::Command::new("mkfifo")
        .arg(name("fifo"))
        .status();
    assert!(fifo.unwrap().success());
    for (text, message) in [
        ("[[stream]]\npath = \"LOG\"".to_owned(), "there is no input"),
        (tcp.to_owned(), "there is no sink"),
        (
            tcp_and("[[stdout]]\n[[stdout]]"),
            "logd.toml:4:1: two sinks have the name `stdout`",
        ),
        (
            tcp_and("[[relay]]\nurl = \"http://127.0.0.1:1\""),
            "logd.toml:3:1: the relay needs a `spool`",
        ),
        (
            tcp_and("[[relay]]\nurl = \"ftp://127.0.0.1:1\""),
            "logd.toml:3:1: `ftp://127.0.0.1:1` is no address",
        ),
        (
            tcp_and("[[file]]\npath = \"/dev/null/log\""),
            "logd.toml:3:1: [[file]] /dev/null/log: /dev/null is not a directory",
        ),
        (
            stream_and(&format!("[[unix]]\npath = \"{folder}/no/log\"")),
            &format!(
                "logd.toml:5:1: [[unix]] {0}/log: {0} does not exist",
                name("no")
            ),
        ),
        (
            tcp_and("[[file]]\npath = \"/\""),
            "logd.toml:3:1: [[file]] /: it is a directory",
        ),
        (
            tcp_and("[[stream]]\npath = \"/dev/null/LOG\""),
            "logd.toml:3:1: [[stream]] /dev/null/LOG: /dev/null is not a directory",
        ),
        (
            tcp_and("[[stream]]\npath = \"LOG\"\nkey-file = \"missing\""),
            "logd.toml:3:1: ",
        ),
        (
            tcp_and("[[file]]\npath = \"logd.toml\""),
            "logd.toml:3:1: [[file]] logd.toml and the file of settings logd.toml have the same path",
        ),
        (
            tcp_and("[[stream]]\npath = \"LOG\"\nkey-file = \"a\"\n[[file]]\npath = \"./a\""),
            "logd.toml:6:1: [[file]] ./a and [[stream]] key-file a have the same path",
        ),
        (
            tcp_and(&format!("[[file]]\npath = \"{folder}/f/\"")),
            &format!(
                "logd.toml:3:1: [[file]] {}: it ends with a slash",
                name("f/")
            ),
        ),
        (
            tcp_and(&format!("[[file]]\npath = \"{folder}/fifo\"")),
            &format!(
                "logd.toml:3:1: [[file]] {}: it is not a regular file",
                name("fifo")
            ),
        ),
        (
            stream_and(&format!("[[unix]]\npath = \"{long}\"")),
            &format!("logd.toml:5:1: {long}: the path of a socket is too long: 108 bytes"),
        ),
        (
            stream_and("[[http]]\naddress = \"0.0.0.0:1514\""),
            "logd.toml:5:1: [[tcp]] 127.0.0.1:1514 and [[http]] 0.0.0.0:1514 have the same port",
        ),
        (
            stream_and(tcp),
            "logd.toml:5:1: [[tcp]] 127.0.0.1:1514 and [[tcp]] 127.0.0.1:1514 have the same port",
        ),
        (
            format!("status = \"[::]:1514\"\n{}", stream_and("")),
            "logd.toml:4:1: status [::]:1514 and [[tcp]] 127.0.0.1:1514 have the same port",
        ),
        (
            stream_and(&format!("[[unix]]\npath = \"{folder}/plain\"")),
            &format!(
                "logd.toml:5:1: [[unix]] {}: it exists and is not a socket",
                name("plain")
            ),
        ),
        (
            stream_and(&format!(
                "[[file]]\npath = \"{folder}/app\"\n[[file]]\nname = \"b\"\npath = \"{folder}/../{}/app\"",
                directory.path().file_name().unwrap().display()
            )),
            "logd.toml:7:1: [[file]] ",
        ),
        (
            spool("LOG"),
            &format!(
                "logd.toml:5:1: [[stream]] {0} and [[relay]] spool {0} have the same path",
                name("LOG")
            ),
        ),
        (
            spool("LOG/spool"),
            &format!(
                "logd.toml:5:1: [[stream]] {0} and [[relay]] spool {0}/spool must not be one in the other",
                name("LOG")
            ),
        ),
        (
            spool(""),
            &format!(
                "logd.toml:5:1: [[stream]] {} and [[relay]] spool {}",
                name("LOG"),
                name("")
            ),
        ),
    ] {
        check_refused(&text, message);
    }
    // They differ in the protocol, in the address or in the file.
    let text = stream_and(
        "[[udp]]\naddress = \"127.0.0.1:1514\"\n[[http]]\naddress = \"127.0.0.2:1514\"\n[[tcp]]\naddress = \"[::1]:1514\"\n",
    );
    let settings = Settings::parse(&text, Path::new("logd.toml")).unwrap();
    assert_eq!(settings.check().unwrap(), "4 inputs, 1 sink");
}

#[test]
fn a_name_of_a_host_is_an_address() {
    let text = "[[tcp]]\naddress = \"localhost:1514\"\n[[stdout]]";
    let settings = Settings::parse(text, Path::new("logd.toml")).unwrap();
    assert!(settings.tcp[0].address.ip().is_loopback());
    assert_eq!(settings.tcp[0].address.port(), 1514);
}

#[test]
fn a_missing_file_is_named() {
    let error = Settings::read(Path::new("no/logd.toml")).unwrap_err();
    assert!(error.to_string().starts_with("no/logd.toml: "), "{error}");
}

#[test]
fn a_check_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let stream = stream_of(&directory.path().join("a/b/LOG"));
    let text = format!(
        "{stream}[[file]]\npath = \"{}/c/d/log\"\n",
        directory.path().display()
    );
    let settings = Settings::parse(&text, Path::new("logd.toml")).unwrap();
    assert_eq!(settings.check().unwrap(), "1 input, 2 sinks");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

const NATS: &str = include_str!("../settings/nats.toml");

#[cfg(not(feature = "nats"))]
#[test]
fn a_program_without_nats_says_how_to_build_it() {
    let settings = Settings::parse(NATS, Path::new("logd.toml")).unwrap();
    let error = settings.config().unwrap_err().to_string();
    let expected =
        "logd.toml:8:1: this program was built without NATS: build it with --features nats";
    assert_eq!(error, expected);
}

#[cfg(feature = "nats")]
#[test]
fn settings_of_nats_are_applied_and_their_mistakes_named() {
    let of = |text: &str| {
        let settings = Settings::parse(text, Path::new("logd.toml")).unwrap();
        settings.config().map_err(|error| error.to_string())
    };
    let config = of(NATS).unwrap();
    let names: Vec<_> = config.sinks.iter().map(|sink| sink.name.as_str()).collect();
    assert_eq!(names, ["stream", "west.spool"]);
    let gauges = config.sinks.iter().flat_map(|sink| &sink.gauges);
    let names: Vec<_> = gauges.map(|gauge| gauge.name()).collect();
    assert_eq!(names, ["nats", "west"]);
    for (before, after, error) in [
        ("/logs.{severity}.{host}", "/", "a subject has words"),
        ("[[stream]]\npath = \"LOG\"\n", "", "NATS needs a `spool`"),
        (
            "password-file = \"nats.password\"\n",
            "",
            "it has one of credentials",
        ),
        ("key = \"client.key\"\n", "", "it has certificate and key"),
        (
            "name = \"west\"",
            "name = \"stream\"",
            "two sinks have the name",
        ),
        (
            "path = \"NATS\"",
            "path = \"LOG/a\"",
            "must not be one in the other",
        ),
    ] {
        assert!(NATS.contains(before), "{before}");
        let found = of(&NATS.replace(before, after)).unwrap_err();
        assert!(found.contains(error), "{found}");
    }
    let settings = Settings::parse(NATS, Path::new("logd.toml")).unwrap();
    let error = settings.check().unwrap_err().to_string();
    assert!(
        error.contains("credentials nats.creds: No such file"),
        "{error}"
    );
}
