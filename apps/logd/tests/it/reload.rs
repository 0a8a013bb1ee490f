//! What a reload changes, and what it leaves.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    time::Duration,
};

use freeboard_logd::{
    Config, Framing, Group, GroupConfig, InputConfig, InputError, Intake, Operations, Policy,
    Reloaded, SourceBound, StartError, UnixConfig, UnixStreamConfig,
    settings::{Settings, SettingsError},
};

use crate::common::{LONG, Rig, TestSink, eventually, lines_of, send, stream_of};

fn parse(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse(text, Path::new("logd.toml"))
}

/// A server of these settings.
fn operations(text: &str) -> (Rig, Operations) {
    let settings = parse(text).unwrap();
    try_operations(settings).expect("it starts")
}

fn try_operations(settings: Settings) -> Result<(Rig, Operations), StartError> {
    let rig = Rig::try_start_as_is(settings.config().unwrap())?;
    let operations = Operations::new(&rig.system, &rig.poller, rig.server.clone(), settings);
    Ok((rig, operations))
}

/// A server with an input at this host, and its port, which was free. `text` has `127.0.0.1:0`.
fn operations_at(host: &str, text: &str) -> (Rig, Operations, u16) {
    for _ in 0..10 {
        let any = TcpListener::bind((host, 0)).unwrap();
        let port = any.local_addr().unwrap().port();
        drop(any);
        let text = text.replace("127.0.0.1:0", &format!("{host}:{port}"));
        match try_operations(parse(&text).unwrap()) {
            Ok((rig, operations)) => return (rig, operations, port),
            // Another test has taken the port.
            Err(StartError::Input(InputError::Bind(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("ten free ports were taken");
}

fn metric(operations: &Operations, series: &str) -> String {
    let mut text = freeboard::meter::Exposition::new();
    operations.render(&mut text);
    let text = text.finish();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no {series} in {text}"))
        .to_owned()
}

#[test]
fn a_policy_is_changed_for_clients_that_are_connected() {
    let sink = TestSink::default().shut();
    let mut config = Config::new(vec![sink.config()]);
    config.source = SourceBound {
        lines: 10,
        bytes: 1 << 20,
    };
    let rig = Rig::start(config);
    let mut client = rig.connect();
    let lines = |numbers: std::ops::Range<u32>| -> String {
        numbers
            .map(|number| format!("<14>line {number}\n"))
            .collect()
    };
    client.write_all(lines(0..100).as_bytes()).unwrap();
    rig.wait_accepted(100);
    let mut config = Config::clone(&rig.server.handle().config());
    let normal = &mut config.groups[Group::Normal as usize];
    *normal = GroupConfig {
        policy: Policy::DropOldest,
        ..*normal
    };
    assert_eq!(rig.reload(config).unwrap(), Reloaded::default());
    // The first read since takes over the policy; those before it may have waited.
    sink.open();
    rig.wait_settled();
    let sink = sink.shut();
    for round in 1..=200 {
        client.write_all(lines(0..100).as_bytes()).unwrap();
        rig.wait_accepted(100 + round * 100);
    }
    assert!(rig.server.totals().held < 20_000, "they are shed");
    sink.open();
    rig.wait_settled();
    let totals = rig.server.totals();
    assert!(totals.shed.iter().sum::<u64>() > 0, "{totals:?}");
    assert!(rig.stop().is_clean());
}

#[test]
fn inputs_are_opened_and_closed_and_the_others_keep_their_clients() {
    let directory = tempfile::tempdir().unwrap();
    let (log, socket) = (
        directory.path().join("LOG"),
        directory.path().join("socket"),
    );
    let first = stream_of(&log);
    let unix = format!("[[unix]]\npath = \"{}\"\n", socket.display());
    let removed = directory.path().join("removed");
    let stream = format!("[[unix-stream]]\npath = \"{}\"\n", removed.display());
    let (rig, operations) = operations(&format!("{first}{stream}"));
    let mut kept = rig.connect();
    kept.write_all(b"before\n").unwrap();
    let mut closed = UnixStream::connect(&removed).unwrap();
    closed.write_all(b"into the closed one\n").unwrap();
    rig.wait_accepted(2);

    let text = operations.reload(parse(&format!("{first}{unix}"))).unwrap();
    assert_eq!(text, "settings reloaded");
    UnixDatagram::unbound()
        .unwrap()
        .send_to(b"into the new one", &socket)
        .unwrap();
    kept.write_all(b"after\n").unwrap();
    kept.shutdown(Shutdown::Write).unwrap();
    closed.set_read_timeout(Some(LONG)).unwrap();
    assert!(
        matches!(closed.read(&mut [0]), Ok(0) | Err(_)),
        "it is closed"
    );
    assert!(!removed.exists(), "its socket is removed");
    // Those four, and the line about the reload.
    rig.wait_accepted(5);
    assert!(rig.stop().is_clean());
    let mut lines: Vec<_> = lines_of(&log).into_iter().map(|(.., text)| text).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "after",
            "before",
            "into the closed one",
            "into the new one",
            "settings reloaded"
        ]
    );
    assert!(!socket.exists(), "its socket is removed");
}

/// Changes the policy of all groups.
fn set_policy(rig: &Rig, policy: Policy) {
    let mut config = Config::clone(&rig.server.handle().config());
    for group in &mut config.groups {
        group.policy = policy;
    }
    rig.reload(config).unwrap();
}

#[test]
fn after_a_reload_the_old_policy_sheds_nothing() {
    let sink = TestSink::default().shut();
    let mut config = Config::new(vec![sink.config()]);
    config.source.lines = 100;
    let rig = Rig::start(config);
    set_policy(&rig, Policy::DropOldest);
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let mut feed = || intake.feed("<14>line\n".into(), 1, None).is_paused;
    assert!((0..90).all(|_| !feed()));
    set_policy(&rig, Policy::Wait);
    // It waits from the hundredth line on.
    assert_eq!((0..20).filter(|_| feed()).count(), 11);
    drop(intake);
    sink.open();
    rig.wait_settled();
    assert_eq!(sink.texts().len(), 110);
    assert!(rig.stop().is_clean());
}

#[test]
fn repeats_are_of_lines_since_the_reload() {
    let sink = TestSink::default();
    let mut config = Config::new(vec![sink.config()]);
    for group in &mut config.groups {
        group.policy = Policy::Coalesce;
    }
    config.repeat_time = Duration::from_secs(3_600);
    let rig = Rig::start(config);
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let mut feed = |lines: &'static str| intake.feed(lines.into(), 1, None);
    let _ = feed("a\na\n");
    set_policy(&rig, Policy::Wait);
    let _ = feed("b\nb\n");
    set_policy(&rig, Policy::Coalesce);
    let _ = feed("a\n");
    drop(intake);
    rig.wait_settled();
    let expected = ["a", "last message repeated 1 time", "b", "b", "a"];
    assert_eq!(sink.texts(), expected);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_reload_that_fails_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = stream_of(&directory.path().join("LOG"));
    let (rig, operations) = operations(&first);
    let before = format!("{:?}", rig.server.handle().config());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = directory.path().join("socket");
    let port_in_use = format!(
        "{first}[source]\nlines = 7\n[[unix]]\npath = \"{}\"\n[[tcp]]\naddress = \"{}\"\n",
        socket.display(),
        taken.local_addr().unwrap(),
    );
    for (text, error) in [
        ("tcp = [", "logd.toml:1:"),
        (
            first.replace("127.0.0.1:0", "nowhere").as_str(),
            "logd.toml:2:11: `address`: ",
        ),
        ("[[stdout]]", "there is no input"),
        (&port_in_use, "cannot listen on 127.0.0.1:"),
        (
            &format!("{first}[group.debug]\nreservoir-batches = 0"),
            "logd.toml:6:21: `reservoir-batches`: ",
        ),
    ] {
        let failed = operations.reload(parse(text)).unwrap_err();
        assert!(
            failed.starts_with(&format!(
                "reload failed, the settings stay as they were: {error}"
            )),
            "{failed}"
        );
        assert_eq!(operations.health().warnings, [failed]);
    }
    assert_eq!(format!("{:?}", rig.server.handle().config()), before);
    assert!(!socket.exists(), "an input that was opened is closed again");
    assert_eq!(
        metric(&operations, "freeboard_logd_reload_failures_total"),
        "5"
    );
    // The server has not changed, so the old file is fine.
    operations.reload(parse(&first)).unwrap();
    assert_eq!(operations.health().warnings, [""; 0]);
    assert_eq!(metric(&operations, "freeboard_logd_reloads_total"), "1");
    send(&rig, "a line\n");
    rig.wait_accepted(7);
    assert!(rig.stop().is_clean());
}

#[test]
fn two_inputs_on_any_free_port_stay() {
    let directory = tempfile::tempdir().unwrap();
    let text = stream_of(&directory.path().join("LOG"));
    let text = format!("{text}[[tcp]]\naddress = \"127.0.0.1:0\"\n");
    let (rig, operations) = operations(&text);
    let before = rig.tcp_addresses();
    assert_eq!(before.len(), 2);
    operations.reload(parse(&text)).unwrap();
    assert_eq!(rig.tcp_addresses(), before);
    for address in before {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"a line\n").unwrap();
    }
    // Those two, and the line about the reload.
    rig.wait_accepted(3);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_server_that_has_stopped_opens_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = stream_of(&directory.path().join("LOG"));
    let socket = directory.path().join("socket");
    let (rig, operations) = operations(&first);
    assert!(rig.server.stop(LONG).is_clean());
    let text = format!("{first}[[unix]]\npath = \"{}\"\n", socket.display());
    let failed = operations.reload(parse(&text)).unwrap_err();
    assert!(failed.ends_with(": the server has stopped"), "{failed}");
    assert!(!socket.exists());
}

#[test]
fn what_needs_a_restart_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let first = stream_of(&directory.path().join("LOG"));
    let (rig, operations) = operations(&first);
    let other = stream_of(&directory.path().join("OTHER"));
    let other = other.replace(":0\"", ":0\"\nframing = \"newline\"");
    let text = operations
        .reload(parse(&format!("idle-time = \"1s\"\n{other}")))
        .unwrap();
    let address = rig.tcp_addresses()[0];
    assert_eq!(
        text,
        format!(
            "settings reloaded; changes that take effect after a restart: \
             idle-time, [[stream]] {0}/LOG, [[stream]] {0}/OTHER, tcp://{address}",
            directory.path().display()
        )
    );
    assert!(!directory.path().join("OTHER").exists());
    assert!(rig.stop().is_clean());
}

#[test]
fn an_address_on_the_same_port_is_moved_by_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = stream_of(&directory.path().join("LOG"));
    let (rig, operations, port) = operations_at("127.0.0.1", &first);
    let any = first.replace("127.0.0.1:0", &format!("0.0.0.0:{port}"));
    let told = operations
        .reload(parse(&format!("line-max = 9\n{any}")))
        .unwrap();
    assert_eq!(
        told,
        format!(
            "settings reloaded; changes that take effect after a restart: tcp://127.0.0.1:{port}"
        )
    );
    assert_eq!(rig.server.handle().config().line_bytes_max, 9);
    TcpStream::connect(("127.0.0.1", port)).expect("it is still open");
    assert!(rig.stop().is_clean());
}

#[test]
fn two_addresses_in_place_of_all_are_bound_by_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = stream_of(&directory.path().join("LOG"));
    let (rig, operations, port) = operations_at("0.0.0.0", &first);
    let one = first.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    let other = format!("[[tcp]]\naddress = \"127.0.0.2:{port}\"\n");
    let told = operations.reload(parse(&format!("{one}{other}"))).unwrap();
    assert_eq!(
        told,
        format!(
            "settings reloaded; changes that take effect after a restart: tcp://0.0.0.0:{port}"
        )
    );
    TcpStream::connect(("127.0.0.2", port)).expect("it is still open");
    assert!(rig.stop().is_clean());
}

#[test]
fn a_reload_begins_new_files_only_if_it_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("app.log");
    let text = format!(
        "[[tcp]]\naddress = \"127.0.0.1:0\"\n[[file]]\npath = \"{}\"\n",
        file.display()
    );
    let (rig, operations) = operations(&text);
    send(&rig, "a line\n");
    rig.wait_accepted(1);
    rig.wait_settled();
    operations.reload(parse("tcp = [")).unwrap_err();
    // The line about it is in the same file.
    eventually("it is written", || {
        fs::read_to_string(&file).is_ok_and(|text| text.lines().count() == 2)
    });
    operations.reload(parse(&text)).unwrap();
    eventually("a new file is begun", || {
        fs::read_dir(directory.path()).unwrap().count() == 2
    });
    assert!(rig.stop().is_clean());
}

#[test]
fn health_fails_while_a_sink_does() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("log");
    let text = format!(
        "unhealthy-after = \"1ns\"\n[[tcp]]\naddress = \"127.0.0.1:0\"\n[[file]]\npath = \"{}\"\n",
        file.display()
    );
    let (rig, operations) = operations(&text);
    assert_eq!(operations.health().problems, [""; 0]);
    let aside = directory.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    send(&rig, "a line\n");
    eventually("it is unhealthy", || {
        let problems = operations.health().problems;
        problems
            .first()
            .is_some_and(|it| it.starts_with("the sink file fails for "))
    });
    fs::rename(&aside, &folder).unwrap();
    eventually("it is healthy", || operations.health().problems.is_empty());
    assert!(rig.stop().is_clean());
    assert!(fs::read_to_string(file).unwrap().ends_with("a line\n"));
}

#[test]
fn a_unix_socket_whose_file_was_removed_is_unhealthy_and_bound_again_by_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let sink = TestSink::default();
    let [stream, datagram] = ["stream", "datagram"].map(|name| directory.path().join(name));
    let config = Config {
        inputs: vec![
            InputConfig::UnixStream(UnixStreamConfig::new(stream.clone())),
            InputConfig::UnixDatagram(UnixConfig::new(datagram.clone())),
        ],
        ..Config::new(vec![sink.config()])
    };
    let rig = Rig::start_as_is(config.clone());
    let settings = Settings::default();
    let operations = Operations::new(&rig.system, &rig.poller, rig.server.clone(), settings);
    assert_eq!(operations.health().problems, [""; 0]);
    fs::remove_file(&stream).unwrap();
    // Another process has the path now.
    fs::remove_file(&datagram).unwrap();
    let other = UnixDatagram::bind(&datagram).unwrap();
    assert_eq!(operations.health().problems.len(), 2);
    assert!(rig.reload(config.clone()).is_err(), "it is in use");
    drop(other);
    assert_eq!(rig.reload(config).unwrap(), Reloaded::default());
    assert_eq!(operations.health().problems, [""; 0]);
    UnixStream::connect(&stream)
        .unwrap()
        .write_all(b"by stream\n")
        .unwrap();
    let client = UnixDatagram::unbound().unwrap();
    client.send_to(b"by datagram", &datagram).unwrap();
    rig.wait_accepted(2);
    assert!(rig.stop().is_clean());
}

#[test]
fn health_fails_while_lines_are_shed_or_a_reservoir_is_full() {
    let sink = TestSink::default().shut();
    let mut config = Config::new(vec![sink.config()]);
    for group in &mut config.groups {
        group.policy = Policy::DropOldest;
        group.reservoir.messages = 2;
    }
    config.summary_interval = Duration::from_millis(50);
    let rig = Rig::start(config);
    let settings = Settings::default();
    let operations = Operations::new(&rig.system, &rig.poller, rig.server.clone(), settings);
    let problem = |text: &str| {
        let problems = operations.health().problems;
        problems.iter().any(|problem| problem.contains(text))
    };
    let mut client = rig.connect();
    for accepted in 1..200 {
        client.write_all(b"<14>a line\n").unwrap();
        rig.wait_accepted(accepted);
    }
    eventually("it is full", || problem("the reservoir of normal is full"));
    // An interval in which nothing is shed ends it.
    eventually("lines are shed", || {
        client.write_all(b"<14>a line\n").unwrap();
        problem(" lines were shed in the last 0.05 s")
    });
    sink.open();
    eventually("it is healthy", || operations.health().problems.is_empty());
    assert!(rig.stop().is_clean());
}

/// The sinks of these settings are ignored.
impl Rig {
    fn reload(&self, config: Config) -> Result<Reloaded, StartError> {
        self.server.reload(&self.system, &self.poller, config)
    }
}
