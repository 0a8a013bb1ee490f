//! Runs on other runtimes: whatever they do, the scene ends well and leaves no process behind.
#![cfg(unix)]

mod lab;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use freeboard_test_servers::{eventually, is_on_path};
use lab::{Running, code, command, json, say, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

const FLOOD: &str = "lab flood --senders 2 --messages 100 --route direct";

const EAGER: &str = "lab eager --scene http --poll eager --clients 2 --requests 20";

/// Programs that are found before all others.
struct Programs(TempDir);

impl Programs {
    /// An `erl` with this script, and an `erlc` that compiles nothing.
    fn with_erl(script: &str) -> Self {
        let programs = Self(tempfile::tempdir().expect("a folder for temporary files"));
        programs.add("erl", script);
        programs.add("erlc", "true");
        programs
    }

    fn add(&self, name: &str, script: &str) {
        let path = self.file(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self) -> String {
        let rest = std::env::var("PATH").expect("a path");
        format!("{}:{rest}", self.0.path().display())
    }

    fn run(&self, arguments: &str) -> Output {
        let mut command = command(arguments);
        command.env("PATH", self.path()).stdin(Stdio::null());
        command.output().expect("the binary was built")
    }

    /// The process whose number the script wrote into this file.
    fn process(&self, name: &str) -> Option<PathBuf> {
        let text = fs::read_to_string(self.file(name)).ok()?;
        let number = text.strip_suffix('\n')?;
        Some(Path::new("/proc").join(number))
    }
}

/// Answers the question for the release, and does this else.
fn erl_25(then: &str) -> String {
    format!("case \"$*\" in *otp_release*) printf 25;; *) {then};; esac")
}

/// The scene goes on without the BEAM, and says why.
fn check_missing(programs: &Programs, says: &str) {
    let output = programs.run(FLOOD);
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{text}");
    assert!(text.contains("BEAM direct, indexed is missing: "), "{text}");
    assert!(text.contains(says), "no {says:?} in {text}");
}

#[test]
fn a_runtime_that_is_old_or_crashes_or_prints_nonsense_leaves_a_sentence() {
    let check = |script: &str, says| check_missing(&Programs::with_erl(script), says);
    check(
        "printf 17",
        "erl is OTP 17, and the programs need 21 or newer",
    );
    check("printf bogus", "erl's release: it printed \"bogus\"");
    check("echo no room >&2; exit 3", "no room");
    let crash = erl_25("echo Slogan: no memory >&2; exit 1");
    check(&crash, "it failed (exit status: 1): Slogan: no memory");
    check(&erl_25("echo bogus"), "it printed \"bogus\\n\"");
    check(&erl_25("yes"), "it printed more than 16 MiB");
    check(
        &erl_25("yes no room | head -c 100000000 >&2; exit 1"),
        "no room; no room",
    );
    check(&erl_25("kill -KILL $$"), "it failed (signal: 9 (SIGKILL))");
    let silent = erl_25("exec >&-; sleep 1000");
    check(&silent, "it closed its output and did not end");
    let programs = Programs::with_erl("printf 25");
    programs.add("erlc", "echo no such header; exit 1");
    check_missing(&programs, "erlc: it failed");
}

#[test]
fn a_runtime_that_hangs_is_killed_with_its_children() {
    let programs = Programs::with_erl("sleep 1000 & echo $! > \"${0%/*}/child\"; wait");
    check_missing(&programs, "erl: it did not end within 10 s");
    let child = programs.process("child").expect("it was started");
    eventually("the child is gone", || !child.exists());
}

#[test]
fn a_missing_runtime_is_named_with_its_package_or_left_out_when_asked() {
    let mut command = command(FLOOD);
    command.env("PATH", "/nonexistent").stdin(Stdio::null());
    let output = command.output().expect("the binary was built");
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{text}");
    let says = "BEAM direct, indexed is missing: erl is not on the path (Debian: erlang-base).";
    assert!(text.contains(says), "{text}");

    let programs = Programs::with_erl("touch \"${0%/*}/called\"");
    let output = programs.run(&format!("{FLOOD} --no-peers"));
    assert_eq!(code(&output), 0);
    assert!(!stdout(&output).contains("BEAM"), "{}", stdout(&output));
    assert!(!programs.file("called").exists());
}

/// Says who it is, starts a child, and waits for it.
const SLEEP: &str = "echo $$ > \"${0%/*}/itself\"; sleep 1000 & echo $! > \"${0%/*}/child\"; wait";

/// The scenes that run on other runtimes, with small work.
const SCENES: [&str; 4] = [
    FLOOD,
    "lab balance --procs 2 --repeats 2 --bytes 64",
    "lab streams --messages 100 --sync none",
    EAGER,
];

#[test]
fn ctrl_c_in_each_scene_ends_a_runtime_and_all_that_it_started() {
    for scene in SCENES {
        check_ctrl_c(&Programs::with_erl(&erl_25(SLEEP)), scene);
    }
    // Already the question for the release may hang.
    check_ctrl_c(&Programs::with_erl(SLEEP), FLOOD);
    let programs = Programs::with_erl("true");
    programs.add("javac", "true");
    programs.add("java", SLEEP);
    let jar = programs.file(".m2/repository/com/lmax/disruptor/1.0/disruptor-1.0.jar");
    fs::create_dir_all(jar.parent().expect("a folder")).expect("folders");
    fs::write(jar, "").expect("a file");
    check_ctrl_c(&programs, "lab ring --messages 100 --wait blocking");
}

fn check_ctrl_c(programs: &Programs, scene: &str) {
    let mut command = command(scene);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    command
        .env("PATH", programs.path())
        .env("HOME", programs.0.path())
        .env("TMPDIR", folder.path());
    let running = Running::start_command(command, Stdio::null());
    eventually("both run", || programs.process("child").is_some());
    let processes = ["itself", "child"].map(|name| programs.process(name).expect("it runs"));
    assert!(processes.iter().all(|process| process.exists()), "{scene}");
    running.interrupt();
    assert_eq!(running.wait(), 130, "{scene}");
    eventually("both are gone", || !processes.iter().any(|it| it.exists()));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
    assert!(left.is_empty(), "{scene}: {left:?}");
}

#[test]
fn ctrl_c_ends_clients_that_wait_for_a_runtime() {
    let path = std::env::var_os("PATH").expect("a path");
    let mut erls = std::env::split_paths(&path).map(|folder| folder.join("erl"));
    let Some(erl) = erls.find(|erl| erl.is_file()) else {
        return say("left out: erl is not on the path");
    };
    let programs = Programs::with_erl("true");
    let [itself, child] = ["itself", "child"].map(|name| programs.file(name));
    // A server that accepts a connection, says who it is, and never answers.
    let serve = format!(
        "{{ok, L}} = gen_tcp:listen(0, [{{ip, {{127, 0, 0, 1}}}}]), {{ok, P}} = inet:port(L), \
         io:format(\"127.0.0.1:~w~n\", [P]), {{ok, _}} = gen_tcp:accept(L), \
         [file:write_file(F, [os:getpid(), 10]) || F <- [{itself:?}, {child:?}]], \
         receive never -> ok end."
    );
    let serve = format!("exec {} -noshell -noinput -eval '{serve}'", erl.display());
    programs.add("erl", &erl_25(&serve));
    check_ctrl_c(&programs, EAGER);
}

#[test]
fn a_kill_of_the_scene_ends_the_runtime_too() {
    let sleeping = "echo $$ > \"${0%/*}/child\"; exec sleep 1000";
    let programs = Programs::with_erl(sleeping);
    let mut command = command(FLOOD);
    // Its temporary folder stays when it is killed.
    command
        .env("PATH", programs.path())
        .env("TMPDIR", programs.0.path());
    let running = Running::start_command(command, Stdio::null());
    eventually("it runs", || programs.process("child").is_some());
    let process = programs.process("child").expect("it was started");
    running.kill();
    eventually("it is gone", || !process.exists());
}

#[test]
fn the_real_beam_writes_the_same_lines() {
    if !is_on_path("erl") {
        return say("left out: erl is not on the path");
    }
    // Few lines: on a busy machine the dam sleeps in most of the five seconds that a scan has.
    let output = lab::run("lab flood --json - --senders 10 --messages 100");
    let json = json(&output, "flood");
    let runs = json["peers"].as_array().expect("runs on the BEAM");
    let names: Vec<&str> = runs.iter().flat_map(|it| it["run"].as_str()).collect();
    let dam = "BEAM dam poll:10000:100ms scan";
    assert_eq!(names, ["BEAM direct, scan", "BEAM direct, indexed", dam]);
    for run in runs {
        lab::assert_whole(run, 1_000);
    }
    for held in &runs[..2] {
        assert_eq!(held["peak_queue"]["server"], 1_000);
        assert!(held["drain_rate_deep"].as_f64() > Some(0.0), "{held}");
    }
}

#[test]
fn the_real_beam_opens_its_file_in_each_of_the_originals_ways() {
    if !is_on_path("erl") {
        return say("left out: erl is not on the path");
    }
    let output = lab::run("lab flood --json - --trials --senders 3 --messages 100");
    let json = json(&output, "flood");
    let runs = json["peers"].as_array().expect("runs on the BEAM");
    assert_eq!(runs.len(), 6);
    runs.iter().for_each(|run| lab::assert_whole(run, 300));
}

#[test]
fn the_real_beam_makes_processes_wait_behind_calls_that_do_not_give_way() {
    if !is_on_path("erl") {
        return say("left out: erl is not on the path");
    }
    let size = "--procs 20 --repeats 10 --bytes 65536 --schedulers 2";
    let output = lab::run(&format!("lab balance --json - {size} --yield never"));
    let json = json(&output, "balance");
    let run = &json["peers"][0];
    assert_eq!(run["run"], "BEAM never yield, 20 x 10");
    let elapsed = run["elapsed_each_s"].as_array().expect("the times of all");
    assert_eq!(elapsed.len(), 20);
    // Ten processes one after the other on each scheduler.
    assert!(run["max_over_min"].as_f64() > Some(3.0), "{run}");
    assert_eq!(lab::fields(run).len(), lab::fields(&json).len());
}

#[test]
fn the_real_beam_keeps_all_messages_of_its_logs() {
    if !is_on_path("erl") {
        return say("left out: erl is not on the path");
    }
    let output = lab::run("lab streams --json - --sync batch --writers 1,2 --messages 2001");
    let json = json(&output, "streams");
    let runs = json["peers"].as_array().expect("runs on the BEAM");
    let names: Vec<&str> = runs.iter().flat_map(|it| it["run"].as_str()).collect();
    assert_eq!(
        names,
        [
            "BEAM disk_log 1 x 128 B, sync batch",
            "BEAM disk_log 1 x 128 B, 100 a call, sync batch",
            "BEAM disk_log 2 x 128 B, sync batch",
            "BEAM disk_log 2 x 128 B, 100 a call, sync batch",
        ]
    );
    for run in runs {
        // A second ends it, however much is to be written.
        let messages = lab::count(run, "messages");
        assert!((1..=2_002).contains(&messages), "{run}");
        assert_eq!(lab::count(run, "read"), messages);
        assert_eq!(
            (lab::count(run, "lost"), lab::count(run, "inverted")),
            (0, 0)
        );
        assert!(run["durable_per_s"].as_f64() > Some(0.0), "{run}");
    }
}

#[test]
fn a_missing_jar_is_named_by_its_coordinates() {
    let programs = Programs::with_erl("true");
    programs.add("java", "true");
    programs.add("javac", "true");
    let mut command = command("lab ring --messages 100 --wait blocking");
    // The jar of Debian's package is the last choice.
    let is_found = Path::new("/usr/share/java/disruptor.jar").exists();
    command
        .env("PATH", programs.path())
        .env("HOME", "/nonexistent");
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built");
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{text}");
    let says = match is_found {
        true => "LMAX blocking is missing: it printed \"\"",
        false => "mvn dependency:get -Dartifact=com.lmax:disruptor:4.0.0",
    };
    assert!(text.contains(says), "{text}");
}

#[test]
fn the_real_disruptor_passes_the_same_messages() {
    let output = lab::run("lab ring --json - --messages 1000 --wait sleeping --ring 64");
    let json = json(&output, "ring");
    let Some(run) = json.get("peers").map(|runs| &runs[0]) else {
        let text = stderr(&output);
        let reasons = ["is not on the path", "is not in the local Maven repository"];
        assert!(reasons.iter().any(|it| text.contains(it)), "{text}");
        return say("left out: java or the jar is missing");
    };
    assert_eq!(run["run"], "LMAX sleeping");
    assert_eq!(
        (&run["messages"], &run["ring"]),
        (&1_000.into(), &64.into())
    );
}

#[test]
fn a_server_that_does_not_serve_leaves_a_sentence() {
    let programs = Programs::with_erl("true");
    let check = |script: &str, of_beam: &str, of_go: &str| {
        programs.add("erl", &erl_25(script));
        let output = programs.run(EAGER);
        let text = stdout(&output);
        assert_eq!(code(&output), 0, "{text}");
        for (title, says) in [
            ("BEAM short connections, +IOt 1 +IOp 1", of_beam),
            ("Go short connections, netpoll", of_go),
        ] {
            let says = format!("{title} is missing: {says}");
            assert!(text.contains(&says), "no {says:?} in {text}");
        }
    };
    // It must not build anything.
    programs.add("go", "echo no such version >&2; exit 2");
    let no_go = "go: it failed (exit status: 2): no such version.";
    let nobody = "0 of 20 requests were answered, 20 failed.";
    check("echo 127.0.0.1:1; sleep 1000", nobody, no_go);
    let crash = "it ended early: no port.";
    check("echo no port >&2; exit 1", crash, no_go);
    programs.add("go", "echo bogus");
    let bogus = "go's version is \"bogus\\n\".";
    check("echo bogus", "it printed \"bogus\"", bogus);
}

#[test]
fn the_real_beam_and_go_serve_the_same_clients() {
    let output = lab::run(
        "lab eager --json - --poll eager --clients 4 --requests 50 --backend echo --cpu-us 0,100 --rounds 1 --time 0.1",
    );
    let json = json(&output, "eager");
    let ours = &json["runs"][0];
    let runs = [
        "short connections",
        "proxy to an echo",
        "sweep 0 us",
        "sweep 100 us",
    ];
    let found: Vec<&Value> = json["peers"].as_array().into_iter().flatten().collect();
    let check = |program, name: &str, poll: &str| match is_on_path(program) {
        true => {
            let expected = runs.map(|run| format!("{name} {run}, {poll}"));
            let titles: Vec<&str> = found.iter().flat_map(|it| it["run"].as_str()).collect();
            let of_it = titles
                .iter()
                .filter(|title| expected.contains(&title.to_string()));
            assert_eq!(of_it.count(), expected.len(), "{titles:?}");
        }
        false => say(&format!("left out: {program} is not on the path")),
    };
    check("erl", "BEAM", "+IOt 1 +IOp 1");
    check("go", "Go", "netpoll");
    for run in found {
        assert_eq!(run["errors"], 0, "{run}");
        assert!(run["latency_us"]["p99"].as_f64() > Some(0.0), "{run}");
        assert_eq!(lab::fields(run).len(), lab::fields(ours).len() + 1);
        // Not told apart from that of those that only compute.
        let has_time = run["cpu_us_per_request"].is_f64();
        assert_eq!(has_time, run["scene"] != "sweep", "{run}");
    }
}

#[test]
fn figures_that_contradict_each_other_leave_a_sentence() {
    let check = |written: &str, seconds: &str| {
        let line = format!(
            "{{\"written\":{written},\"seconds\":1,\"cpu_s\":1,\"drain_rate_deep\":null,\"drain_rate_shallow\":null,\
             \"rss_peak_bytes\":null,\"samples\":[{{\"seconds\":{seconds},\"dam\":0,\"server\":0}}]}}"
        );
        let programs = Programs::with_erl(&erl_25(&format!("echo '{line}'")));
        check_missing(&programs, "it printed figures that contradict each other");
    };
    check("999", "1");
    check("200", "-1");
    check("200", "1e300");
}

#[test]
fn a_scan_without_a_file_is_not_run_on_the_beam() {
    let programs = Programs::with_erl("touch \"${0%/*}/called\"");
    let output = programs.run(&format!("{FLOOD} --receive scan --sink none"));
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(!programs.file("called").exists());
}

#[test]
fn the_json_says_that_a_runtime_is_missing() {
    let mut command = command(&format!("{FLOOD} --json -"));
    command.env("PATH", "/nonexistent").stdin(Stdio::null());
    let output = command.output().expect("the binary was built");
    let json = json(&output, "flood");
    let text = json["missing"][0].as_str().expect("a sentence");
    assert!(
        text.starts_with("BEAM direct, indexed is missing: erl"),
        "{text}"
    );
}
