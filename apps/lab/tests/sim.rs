//! `freeboard sim`: seeds run, and one runs again up to a step.
#![cfg(feature = "sim")]

mod lab;

use lab::{check_usage, code, run, stderr, stdout};
use serde_json::Value;

#[test]
fn seeds_run_and_one_is_replayed_up_to_a_step() {
    let ran = run("sim run mailboxes --first 5 --seeds 3 --jobs 2 --json");
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let outcomes: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(outcomes[0]["world"], "mailboxes");
    assert_eq!(outcomes[0]["seeds"], 3);
    assert!(outcomes[0].get("failure").is_none(), "{outcomes}");

    let twice = run("sim run mailboxes --first 5 --seeds 2 --twice");
    assert_eq!(code(&twice), 0, "{}", stdout(&twice));

    let replayed = run("sim replay mailboxes --seed 5 --until 100 --follow Receiver");
    assert_eq!(code(&replayed), 0, "{}", stderr(&replayed));
    let text = stdout(&replayed);
    let (followed, actors) = text.split_once("after ").expect("the step");
    assert!(followed.contains("Receiver#"), "{text}");
    let receiver = actors.lines().find(|line| line.contains("Receiver#"));
    assert!(
        receiver.is_some_and(|it| it.ends_with("messages")),
        "{text}"
    );
}

#[test]
fn unknown_worlds_and_sizes_are_bad_usage() {
    check_usage("sim run nowhere", "no world `nowhere`");
    check_usage("sim replay mailboxes --seed 1 --size senders", "--size");
}
