//! Questions to a directory, as a test asks them.

use std::{
    ops::Range,
    sync::mpsc,
    time::{Duration, Instant},
};

use freeboard_fetcher::store::{Directory, StoreError};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// Asks, and waits for the outcome.
pub(crate) fn ask(
    directory: &dyn Directory,
    users: Vec<String>,
) -> Result<Vec<Option<String>>, StoreError> {
    let (sender, outcome) = mpsc::channel();
    let on_outcome = Box::new(move |answers| sender.send(answers).expect("it is waited for"));
    directory.look_up(users, on_outcome);
    let answers = outcome.recv_timeout(LONG).expect("an outcome");
    // The callback is gone, and was called once.
    assert!(outcome.recv_timeout(LONG).is_err());
    answers
}

/// Asks until there is an answer: what may pass is asked again.
pub(crate) fn ask_until_answered(
    directory: &dyn Directory,
    users: &[String],
) -> Vec<Option<String>> {
    let begun = Instant::now();
    loop {
        match ask(directory, users.to_vec()) {
            Ok(answers) => return answers,
            Err(error) => assert!(error.is_retryable() && begun.elapsed() < LONG, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// The names of these users.
pub(crate) fn names(numbers: Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("user-{number}")).collect()
}

/// The devices of these users.
pub(crate) fn devices(numbers: Range<u64>) -> Vec<Option<String>> {
    numbers
        .map(|number| Some(format!("device-{number}")))
        .collect()
}

/// Users a second, looked up in questions of this size, `under_way` at once.
pub(crate) fn rate(directory: &dyn Directory, users: u64, size: u64, under_way: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(size);
    let (sender, outcomes) = mpsc::channel();
    let questions = 40_000 / size;
    let begun = Instant::now();
    let mut answered = 0;
    for question in 0..questions {
        if question >= under_way {
            outcomes.recv_timeout(LONG).expect("an outcome");
            answered += 1;
        }
        let number = |_| format!("user-{}", random.u64(..users));
        let sender = sender.clone();
        let on_outcome = Box::new(move |answers: Result<Vec<Option<String>>, StoreError>| {
            assert!(answers.expect("an answer").iter().all(Option::is_some));
            sender.send(()).expect("it is waited for");
        });
        directory.look_up((0..size).map(number).collect(), on_outcome);
    }
    for _ in answered..questions {
        outcomes.recv_timeout(LONG).expect("an outcome");
    }
    (questions * size) as f64 / begun.elapsed().as_secs_f64()
}
