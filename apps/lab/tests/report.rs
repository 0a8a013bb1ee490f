//! The report: all scenes, one page, and scenes that fail without stopping the others.

mod lab;

use std::{
    fs,
    process::{Output, Stdio},
};

use lab::{Running, check_usage, code, command, json, run, say, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

const SCENES: [&str; 7] = [
    "goodput", "flood", "balance", "ring", "streams", "eager", "fetch",
];

/// Where a report goes.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for temporary files"))
    }

    fn path(&self) -> String {
        self.0.path().join("report").display().to_string()
    }

    fn page(&self) -> String {
        fs::read_to_string(self.0.path().join("report/index.html")).expect("the report was written")
    }

    /// A small report of these scenes, as JSON on standard output.
    fn report(&self, knobs: &str) -> Output {
        run(&self.words(knobs))
    }

    fn words(&self, knobs: &str) -> String {
        format!("lab all --quick --json - --report {} {knobs}", self.path())
    }
}

/// Whether each scene ended well, by name.
fn endings(json: &Value) -> Vec<(&str, bool)> {
    let endings = json["endings"].as_array().expect("endings");
    let ending = |it| match it {
        (Some(scene), Some(ok)) => (scene, ok),
        _ => panic!("a name and an ending in {json}"),
    };
    let endings = endings.iter();
    endings
        .map(|it| ending((it["scene"].as_str(), it["ok"].as_bool())))
        .collect()
}

#[test]
fn all_scenes_are_on_one_page_that_needs_nothing_else() {
    let folder = Folder::new();
    let output = folder.report("");
    let json = json(&output, "all");
    assert_eq!(endings(&json), SCENES.map(|scene| (scene, true)));
    // A scene that was called several times has several records.
    let records = json["scenes"].as_array().expect("records");
    let mut names: Vec<&str> = records.iter().flat_map(|it| it["scene"].as_str()).collect();
    names.dedup();
    assert_eq!(names, SCENES);
    assert!(json["seconds"].as_f64().expect("seconds") > 0.0);
    assert!(json["machine"]["cores"].as_u64().expect("cores") > 0);

    let page = folder.page();
    for scene in SCENES {
        assert!(
            page.contains(&format!("<section id=\"{scene}\">")),
            "{scene}"
        );
        assert!(page.contains(&format!("<a href=\"#{scene}\">")), "{scene}");
        assert!(
            page.contains(&format!("<code>freeboard lab {scene} ")),
            "{scene}"
        );
    }
    assert!(page.contains("<section id=\"machine\">"));
    let plots = page.matches("<svg").count();
    assert!(plots > 20, "{plots}");
    assert_eq!(page.matches("<figure").count(), plots);
    // Each has a side; none shows published figures.
    let of = |class: &str| page.matches(&format!("<figure class=\"{class}\">")).count();
    assert_eq!(of("published"), 0, "each failure is live");
    assert_eq!(of("original"), 1, "the dam that polls");
    // The goodput's and the flood's; which of the others show depends on the machine.
    let has_both = of("both") >= 1 || (of("failure") >= 1 && of("cure") >= 1);
    assert!(has_both, "{page}");
    let kinds = ["failure", "cure", "both", "original", "peer", "neither"];
    assert_eq!(kinds.map(of).iter().sum::<usize>(), plots);
    for outside in ["<script", "<link", "<img", "src=", "://", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for number in ["NaN", "inf\"", "FAILED"] {
        assert!(!page.contains(number), "{number}");
    }
}

/// The number that a text begins with.
fn number(text: &str) -> f64 {
    let digits = text.split(' ').next().expect("a number");
    let number = digits.replace(',', "").parse();
    number.unwrap_or_else(|_| panic!("{text:?} begins with a number"))
}

#[test]
fn failure_and_cure_are_figures_of_runs_of_the_same_call() {
    let folder = Folder::new();
    let output = folder.report("--only flood --no-peers");
    let json = json(&output, "all");
    let headline = &json["endings"][0]["headline"];
    let text = |key: &str| headline[key].as_str().expect("a text").to_owned();
    let runs = json["scenes"][0]["runs"].as_array().expect("runs");
    let rate = |run: &Value| {
        run["written"].as_f64().expect("a count") / run["seconds"].as_f64().expect("a time")
    };
    let check = |key: &str, title: &str, run: &Value| {
        let text = text(key);
        assert!(text.ends_with(title), "{text}");
        // Three significant digits.
        let measured = rate(run);
        assert!(
            (number(&text) - measured).abs() <= 0.006 * measured,
            "{text} {run}"
        );
    };
    assert_eq!(
        (&runs[0]["receive"], &runs[0]["dam"]),
        (&"scan".into(), &Value::Null)
    );
    assert_eq!(
        (&runs[3]["receive"], &runs[3]["dam"]),
        (&"scan".into(), &"credit:1024".into())
    );
    check("failure", "lines/s, direct, scan", &runs[0]);
    check("cure", "lines/s, dam credit:1024 scan", &runs[3]);
    assert_eq!(text("beside"), "-");
    let page = folder.page();
    assert!(page.contains(&text("claim")), "{page}");
    assert!(page.contains("were left out (--no-peers)"), "{page}");
    for tag in page.split("<span class=\"tag\">").skip(1) {
        assert!(!tag.starts_with("published"), "{tag}");
    }
}

/// The Disruptor's ring has no idle consumers beside it, and failure and cure have eight.
#[test]
fn a_headline_shows_other_runtimes_only_with_the_same_work() {
    let folder = Folder::new();
    let json = json(&folder.report("--only ring"), "all");
    assert_eq!(json["endings"][0]["headline"]["beside"], "-", "{json}");
    if json["scenes"][0].get("peers").is_none() {
        say("the Disruptor did not run");
    }
}

#[test]
fn a_scene_that_fails_does_not_stop_the_others() {
    let folder = Folder::new();
    let output = command(&folder.words("--only flood,ring"))
        // The flood is written below it; a ring needs no files.
        .env("TMPDIR", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let last = stderr(&output);
    let last = last.lines().last().expect("an error");
    assert!(last.starts_with("error: failed: flood: "), "{last}");
    assert!(last.contains("/nonexistent"), "{last}");
    let json: Value = serde_json::from_str(&stdout(&output)).expect("standard output is JSON");
    assert_eq!(endings(&json), [("flood", false), ("ring", true)]);
    let error = json["endings"][0]["error"].as_str().expect("what failed");
    assert!(error.contains("/nonexistent"), "{error}");
    let page = folder.page();
    assert!(page.contains("It failed: "), "{page}");
    assert!(page.contains("<section id=\"ring\">"), "{page}");
}

#[test]
fn scenes_can_be_chosen() {
    let folder = Folder::new();
    let output = folder.report("--only ring,flood --skip flood");
    assert_eq!(endings(&json(&output, "all")), [("ring", true)]);
    let said = stderr(&output);
    assert!(said.contains("[1/1] ring: "), "{said}");
    assert!(!folder.page().contains("id=\"flood\""));
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (knobs, says) in [
        ("--report /dev/null/page", "/dev/null/page"),
        ("--json /nonexistent/out.json", "/nonexistent/out.json"),
        ("--only roundabout", "roundabout"),
        ("--skip flood,roundabout", "roundabout"),
        (
            "--only flood --skip flood",
            "--only and --skip leave no scene",
        ),
    ] {
        let folder = Folder::new();
        let report = match knobs.starts_with("--report") {
            true => String::new(),
            false => format!("--report {}", folder.path()),
        };
        check_usage(&format!("lab all --quick {knobs} {report}"), says);
    }
}

#[test]
fn ctrl_c_ends_it_with_a_report_of_what_there_is() {
    const LAST: &str = "the last report";
    let folder = Folder::new();
    fs::create_dir(folder.path()).expect("a folder");
    fs::write(folder.0.path().join("report/index.html"), LAST).expect("a page");
    let running = Running::start(&format!(
        "lab all --only balance,ring --report {}",
        folder.path()
    ));
    running.wait_for("[1/2] balance");
    assert_eq!(folder.page(), LAST, "it stays until there is another one");
    running.interrupt();
    running.wait_for("Ctrl-C: the report has what was finished");
    assert_eq!(running.wait(), 130);
    let page = folder.page();
    assert!(page.contains("interrupted"), "{page}");
    assert!(!page.contains("id=\"ring\""), "{page}");
    let files = fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(files.count(), 1, "nothing is left beside the page");
}

#[test]
fn a_page_that_cannot_be_replaced_is_bad_usage() {
    let folder = Folder::new();
    fs::create_dir_all(folder.0.path().join("report/index.html")).expect("a folder in its place");
    check_usage(&folder.words("--only ring"), "index.html");
}
