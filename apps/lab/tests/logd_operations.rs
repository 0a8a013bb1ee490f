//! `freeboard logd` with a file of settings, as an operator runs it: checks, reloads, health, systemd.
#![cfg(unix)]

mod lab;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    iter,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use freeboard_test_servers::{LONG, eventually, is_on_path};
use lab::{
    Running, check_usage, code, command,
    log_server::{flood_to, numbers_in},
    run, say,
    service::{find_gauge, get},
    signal, stderr, stdout,
};
use tempfile::TempDir;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// A folder with settings.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of settings, which now has this text.
    fn write(&self, text: &str) -> PathBuf {
        let path = self.path("logd.toml");
        // At once: the server may read it at any time.
        let new = self.path("logd.toml.new");
        fs::write(&new, text).expect("there is space");
        fs::rename(new, &path).expect("there is space");
        path
    }

    /// Settings with TCP, HTTP for the status, and a stream `LOG`; what is further, is in front.
    fn settings(&self, further: &str) -> String {
        format!(
            "status = \"127.0.0.1:0\"\n{further}\n[[tcp]]\naddress = \"127.0.0.1:0\"\n[[stream]]\npath = \"{}\"\n",
            self.path("LOG").display()
        )
    }
}

/// A server that runs with the settings of a file.
struct Logd {
    running: Running,
    status: String,
    tcp: String,
}

impl Logd {
    fn start(settings: &Path) -> Self {
        Self::of(Running::start(&format!(
            "logd --config {}",
            settings.display()
        )))
    }

    fn of(running: Running) -> Self {
        let status = running.wait_for("/healthz");
        let status = status.strip_prefix("http://").expect("a URL");
        let (status, _) = status.split_once('/').expect("a path");
        let tcp = running.wait_for("takes lines");
        let tcp = tcp.strip_prefix("tcp://").expect("its first input");
        let (tcp, _) = tcp.split_once(' ').expect("its address");
        Self {
            status: status.to_owned(),
            tcp: tcp.to_owned(),
            running,
        }
    }

    fn metric(&self, name: &str) -> u64 {
        find_gauge(&get(&self.status, "/metrics"), name)
    }

    /// Status and body of `/healthz`.
    fn health(&self) -> (bool, String) {
        let answer = get(&self.status, "/healthz");
        let is_ok = answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        (is_ok, body.to_owned())
    }

    /// Reloads the settings, and waits until it is done.
    fn reload(&self) {
        let done = || {
            self.metric("freeboard_logd_reloads_total")
                + self.metric("freeboard_logd_reload_failures_total")
        };
        let before = done();
        signal(self.running.id(), "HUP");
        eventually("it is reloaded", || done() > before);
    }

    fn end(self) {
        self.running.terminate();
        assert_eq!(self.running.wait(), 0);
    }
}

fn send(address: &str, text: &str) {
    let mut client = TcpStream::connect(address).expect("it listens");
    client.write_all(text.as_bytes()).expect("it reads");
}

#[test]
fn the_sample_is_valid() {
    let desk = Desk::new();
    let sample = fs::read_to_string(format!("{PACKAGING}/logd.toml")).expect("the sample");
    // With all that is commented out, too: keys, tables and inline comments, and no prose.
    let uncommented: String = sample
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key)
                if key.starts_with(|first: char| first.is_ascii_lowercase() || first == '[') =>
            {
                key
            }
            _ => line,
        })
        .flat_map(|line| [line, "\n"])
        .filter(|line| !line.starts_with("key-") && !line.starts_with("clients"))
        .collect();
    let authority = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for certificate in ["server.crt", "client.crt", "nats-ca.crt"] {
        fs::write(desk.path(certificate), authority.cert.pem()).unwrap();
    }
    for key in ["server.key", "client.key"] {
        fs::write(desk.path(key), authority.signing_key.serialize_pem()).unwrap();
    }
    fs::write(desk.path("nats.token"), "token").unwrap();
    let folder = desk.folder.path().display().to_string();
    let mut texts = vec![(sample, "3 inputs, 1 sink")];
    if cfg!(feature = "nats") {
        texts.push((uncommented, "6 inputs, 5 sinks"));
    }
    for (text, found) in texts {
        let text = ["/var/log/freeboard", "/run/freeboard", "/etc/freeboard"]
            .iter()
            .fold(text, |text, path| text.replace(path, &folder));
        let output = run(&format!(
            "logd --check --config {}",
            desk.write(&text).display()
        ));
        assert_eq!(
            stdout(&output),
            format!("configuration ok: {found}\n"),
            "{}",
            stderr(&output)
        );
        assert_eq!(code(&output), 0);
    }
}

#[test]
fn the_unit_is_valid() {
    if !is_on_path("systemd-analyze") {
        return say("left out: there is no systemd-analyze");
    }
    let desk = Desk::new();
    let unit = fs::read_to_string(format!("{PACKAGING}/freeboard-logd.service")).expect("the unit");
    // It must exist.
    let unit = unit.replace("/usr/bin/freeboard", env!("CARGO_BIN_EXE_freeboard"));
    let path = desk.path("freeboard-logd.service");
    fs::write(&path, unit).unwrap();
    let output = Command::new("systemd-analyze")
        .args(["verify", "--recursive-errors=no"])
        .arg(path)
        .output()
        .expect("it is installed");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn mistakes_are_named_at_the_start_with_exit_code_2() {
    let desk = Desk::new();
    let path = desk.write(&desk.settings("[group.debug]\npolcy = \"wait\"\n"));
    let path = path.display();
    for flags in ["", "--check"] {
        let message = format!("{path}:3:1: unknown key `polcy`; is it `policy`?");
        check_usage(&format!("logd --config {path} {flags}"), &message);
    }
    check_usage(&format!("logd LOG --config {path}"), "cannot be used with");
    check_usage(
        &format!("logd --config {path} --key-env K"),
        "cannot be used with",
    );
    check_usage("logd --tcp 127.0.0.1:0", "there is no sink");
    check_usage("logd LOG", "there is no input");
    check_usage("logd LOG --tcp 127.0.0.1:0 --file-gzip", "--file <PATH>");
    check_usage(
        "logd --tcp 127.0.0.1:0 --file f --file-rotate weekly",
        "expected `hourly` or `daily`",
    );

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let log = desk.path("LOG");
    let log = log.display();
    let in_use = "Address already in use";
    check_usage(&format!("logd {log} --tcp {taken}"), in_use);
    check_usage(
        &format!("logd {log} --tcp 127.0.0.1:0 --status {taken}"),
        in_use,
    );
    let checked = run(&format!("logd {log} --tcp {taken} --check --board={taken}"));
    assert_eq!(stdout(&checked), "configuration ok: 1 input, 1 sink\n");
    let first = Logd::start(&desk.write(&desk.settings("")));
    let second = format!("logd {log} --tcp 127.0.0.1:0");
    check_usage(&second, "another writer has this stream open");
    first.end();
}

#[test]
fn broken_settings_are_not_used_and_are_reported() {
    let desk = Desk::new();
    let settings = desk.settings("");
    let server = Logd::start(&desk.write(&settings));
    assert_eq!(server.health(), (true, "ok\n".to_owned()));
    desk.write("tcp = nonsense");
    server.reload();
    let (is_ok, body) = server.health();
    assert!(
        is_ok && body.contains("warning: reload failed") && body.contains(":1:7: "),
        "{body}"
    );
    desk.write(&settings);
    server.reload();
    assert_eq!(server.health(), (true, "ok\n".to_owned()));
    send(&server.tcp, "a line\n");
    eventually("it is taken", || {
        server.metric("freeboard_logd_lines_taken_total") == 3
    });
    assert_eq!(server.metric("freeboard_logd_reload_failures_total"), 1);
    server.end();
}

#[test]
fn two_hundred_reloads_under_load_lose_nothing() {
    const SENDERS: u32 = 8;
    const MESSAGES: u32 = 2_000;
    let desk = Desk::new();
    let server = Logd::start(&desk.write(&desk.settings("")));
    let address = format!("tcp:{}", server.tcp);
    let are_reloads_done = Arc::new(AtomicBool::new(false));
    let is_enough = are_reloads_done.clone();
    let load = thread::spawn(move || {
        let flags = format!("--senders {SENDERS} --messages {MESSAGES} --limit 3600");
        let mut floods = 0;
        // Ordering: Relaxed: a flag for itself.
        while !is_enough.load(Ordering::Relaxed) {
            let (code, json) = flood_to(&address, &flags);
            assert_eq!((code, &json["closed"]), (0, &0.into()), "{json}");
            floods += 1;
        }
        floods
    });
    eventually("lines come", || {
        server.metric("freeboard_logd_lines_accepted_total") > 0
    });
    let unix = format!("[[unix]]\npath = \"{}\"\n", desk.path("socket").display());
    for round in 0..200 {
        let further = match round % 4 {
            0 => "[group.normal]\npolicy = \"coalesce\"\nreservoir-batches = 4\n",
            1 => "[source]\nlines = 100\n",
            2 => "[group.normal]\nreservoir = \"64 KiB\"\n",
            _ => &unix,
        };
        desk.write(&desk.settings(further));
        server.reload();
    }
    assert_eq!(server.metric("freeboard_logd_reloads_total"), 200);
    are_reloads_done.store(true, Ordering::Relaxed);
    let floods: usize = load.join().expect("no flood fails");
    server.end();
    let numbers = numbers_in(&desk.path("LOG"));
    assert_eq!(numbers.len(), SENDERS as usize);
    for (sender, mut numbers) in numbers {
        // The end of a flood and the begin of the next have no order: they are other connections.
        numbers.sort_unstable();
        let sent = (0..MESSAGES).flat_map(|number| iter::repeat_n(number, floods));
        assert!(numbers.into_iter().eq(sent), "sender {sender}");
    }
}

/// A file system in memory, which root can mount.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).expect("there is space");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(&path);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn health_fails_while_the_disk_is_full() {
    let desk = Desk::new();
    let Some(disk) = SmallDisk::mount(desk.path("disk")) else {
        return say("left out: a small disk cannot be mounted here");
    };
    let file = disk.0.join("app.log");
    let further = "unhealthy-after = \"100ms\"";
    let text = format!(
        "{}[[file]]\npath = \"{}\"\n",
        desk.settings(further),
        file.display()
    );
    let server = Logd::start(&desk.write(&text));
    assert!(server.health().0);
    let ballast = disk.0.join("ballast");
    let mut rest = fs::File::create(&ballast).expect("there is space");
    while rest.write_all(&[0; 4096]).is_ok() {}
    drop(rest);
    eventually("it is noticed", || {
        let (is_ok, body) = server.health();
        is_ok && body.contains("warning: the disk of ") && body.contains(": 0 bytes are free")
    });
    send(&server.tcp, &"a line that does not fit\n".repeat(1_000));
    eventually("it is unhealthy", || {
        let (is_ok, body) = server.health();
        !is_ok && body.contains("the sink file fails for")
    });
    fs::remove_file(ballast).expect("it is there");
    eventually("it is healthy", || server.health().0);
    eventually("nothing is lost", || {
        server.metric("freeboard_logd_lines_taken_total") == 1_000
    });
    server.end();
    let written = fs::read_to_string(&file).expect("the file");
    assert_eq!(written.lines().count(), 1_000);
}

#[test]
fn without_a_reader_of_its_only_sink_it_ends() {
    let mut server = command("logd --tcp 127.0.0.1:0 --stdout")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(server.stdout.take());
    let mut told = BufReader::new(server.stderr.take().expect("piped"));
    let mut line = String::new();
    told.read_line(&mut line).expect("UTF-8");
    let (_, address) = line.split_once("tcp://").expect("its address");
    let (address, _) = address.split_once(' ').expect("its address");
    send(address, "a line\n");
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("UTF-8");
    assert!(
        rest.contains("no sink takes lines any more: the sink stdout: its reader has closed it"),
        "{rest}"
    );
    assert_eq!(server.wait().expect("it was started").code(), Some(1));
}

#[test]
fn systemd_is_told_what_happens() {
    let desk = Desk::new();
    let socket = desk.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(LONG)).unwrap();
    let path = desk.write(&desk.settings(""));
    let mut logd = command(&format!("logd --config {}", path.display()));
    logd.env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "200000");
    let server = Logd::of(Running::start_command(logd, Stdio::null()));
    let wait_for = |wanted: &str| {
        let mut text = [0; 64];
        loop {
            let length = manager.recv(&mut text).expect("a message");
            if &text[..length] == wanted.as_bytes() {
                return;
            }
            assert_eq!(&text[..length], b"WATCHDOG=1", "before {wanted}");
        }
    };
    wait_for("READY=1");
    wait_for("WATCHDOG=1");
    signal(server.running.id(), "HUP");
    wait_for("RELOADING=1");
    wait_for("READY=1");
    server.running.terminate();
    wait_for("STOPPING=1");
    assert_eq!(server.running.wait(), 0);
}

#[test]
fn flags_name_the_other_sinks() {
    let desk = Desk::new();
    let (file, log) = (desk.path("app.log"), desk.path("FAR"));
    let far = Running::start(&format!("logd {} --http 127.0.0.1:0", log.display()));
    let url = far.wait_for("takes lines");
    let (url, _) = url.split_once(' ').expect("a URL");
    let near = Running::start(&format!(
        "logd {} --tcp 127.0.0.1:0 --file {} --file-rotate daily --relay {url}",
        desk.path("NEAR").display(),
        file.display(),
    ));
    let tcp = near.wait_for("takes lines");
    let (tcp, _) = tcp.strip_prefix("tcp://").unwrap().split_once(' ').unwrap();
    send(tcp, "a line\n");
    eventually("it is in the file", || {
        fs::read_to_string(&file).is_ok_and(|text| text.ends_with(" a line\n"))
    });
    eventually("it is relayed", || {
        let printed = run(&format!("logs {} --raw", log.display()));
        stdout(&printed) == "a line\n"
    });
    for server in [near, far] {
        server.terminate();
        assert_eq!(server.wait(), 0);
    }
}
