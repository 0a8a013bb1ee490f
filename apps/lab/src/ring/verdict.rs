//! What the runs show, in words.

use super::{knobs::Wait, plan::Plan, run::Outcome};
use crate::figures::{count, rate};

/// The size of ring that the original measured with.
const RING_ORIGINAL: usize = 1_024;

/// Said before a run.
pub(crate) fn opening(plan: &Plan) -> String {
    let plural = |number: u32, one: &str, several: &str| {
        format!("{number} {}", if number == 1 { one } else { several })
    };
    format!(
        "{}, {}{}: {} messages of {}",
        plan.wait.name(),
        plural(plan.priorities, "priority", "priorities"),
        plan.beside(),
        count(plan.messages),
        plural(plan.producers, "producer", "producers")
    )
}

/// A run in the original's form.
pub(crate) fn line(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    format!(
        "    elapsed: {:.0} ms, QPS: {:.0}, priorities: {}, ring: {}{}",
        outcome.seconds * 1e3,
        outcome.rate(),
        plan.priorities,
        plan.ring,
        if outcome.is_sound() {
            String::new()
        } else {
            format!("; {}", outcome.finding())
        }
    )
}

/// What the original measured, in messages a second: one producer, 10 M messages.
pub(crate) fn of_original(plan: &Plan) -> Option<f64> {
    if plan.ring != RING_ORIGINAL || plan.producers != 1 || plan.idle != 0 {
        return None;
    }
    match (plan.wait, plan.priorities) {
        (Wait::Blocking, 1) => Some(468_863.0),
        (Wait::Blocking, 2) => Some(232_398.0),
        (Wait::Sleeping, 1) => Some(1_252_227.0),
        (Wait::Sleeping, 2) => Some(1_023_022.0),
        _ => None,
    }
}

/// Said at the end.
pub(crate) fn verdict(outcomes: &[Outcome]) -> Vec<String> {
    let sound: Vec<&Outcome> = outcomes.iter().filter(|it| it.is_sound()).collect();
    let mut texts = Vec::new();
    for outcome in sound.iter().filter(|it| it.plan.priorities == 1) {
        texts.push(of_wait(outcome, of_two(&sound, outcome)));
    }
    if sound.iter().any(|it| of_original(&it.plan).is_some()) {
        texts.push(
            "The original's figures are of 2014, on a JVM and on another machine: a measure of what \
             was usual, not of what is better."
                .to_owned(),
        );
    }
    if !outcomes.is_empty() && sound.len() == outcomes.len() {
        let messages: u64 = sound.iter().map(|it| it.received).sum();
        texts.push(format!(
            "whole: {} messages came, each once, and in the order of its producer and priority.",
            count(messages)
        ));
    }
    texts
}

/// The same run as this one, but with two priorities.
pub(crate) fn of_two<'a>(outcomes: &[&'a Outcome], one: &Outcome) -> Option<&'a Outcome> {
    let mut same = outcomes
        .iter()
        .filter(|it| it.plan.wait == one.plan.wait && it.plan.idle == one.plan.idle);
    same.find(|it| it.plan.priorities == 2).copied()
}

fn of_wait(one: &Outcome, two: Option<&Outcome>) -> String {
    let with_original = |outcome: &Outcome| match of_original(&outcome.plan) {
        Some(original) => format!(
            "{} messages/s (the original: {})",
            rate(outcome.rate()),
            rate(original)
        ),
        None => format!("{} messages/s", rate(outcome.rate())),
    };
    let (wait, beside) = (one.plan.wait.name(), one.plan.beside());
    let mut text = format!("{wait}{beside}: {}", with_original(one));
    if let Some(two) = two {
        text += &format!(
            "; with two priorities {}: two over one {:.2}",
            with_original(two),
            two.rate() / one.rate()
        );
        if let (Some(of_one), Some(of_two)) = (of_original(&one.plan), of_original(&two.plan)) {
            text += &format!(" (the original: {:.2})", of_two / of_one);
        }
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(wait: Wait, priorities: u32, seconds: f64) -> Outcome {
        Outcome {
            plan: Plan {
                messages: 1_000_000,
                ring: RING_ORIGINAL,
                producers: 1,
                priorities,
                wait,
                idle: 0,
            },
            was_interrupted: false,
            sent: 1_000_000,
            received: 1_000_000,
            disordered: 0,
            missing: 0,
            seconds,
            processor_seconds: None,
        }
    }

    #[test]
    fn two_priorities_are_set_over_one_of_the_same_wait() {
        let outcomes = [
            outcome(Wait::Blocking, 1, 1.0),
            outcome(Wait::Blocking, 2, 2.0),
            outcome(Wait::Yielding, 1, 0.5),
        ];
        let texts = verdict(&outcomes);
        assert!(
            texts[0].contains("two over one 0.50 (the original: 0.50)"),
            "{texts:?}"
        );
        assert!(texts[0].contains("468,863"), "{texts:?}");
        assert_eq!(texts[1], "yielding: 2,000,000 messages/s.");
        assert!(texts[3].starts_with("whole: 3,000,000"), "{texts:?}");
    }

    #[test]
    fn nothing_is_said_of_a_run_that_lost_something() {
        let mut lossy = outcome(Wait::Blocking, 1, 1.0);
        lossy.missing = 1;
        assert!(line(&lossy).contains("1 missing"));
        assert_eq!(verdict(&[lossy]), Vec::<String>::new());
    }
}
