//! What the runs show, in words.

use freeboard::stream::SyncMode;

use super::{disk::Disk, naive::Naive, plan::Plan, run::Outcome};
use crate::figures::{count, rate};

/// What the original accumulated and flushed, on a laptop of 2013.
const ORIGINAL: &str = "The original, on a laptop of 2013: 231,941 messages of 128 B a second \
    accumulated, 200 MB/s flushed; not synced, and the rate it printed was accumulation.";

/// Said before a run.
pub(super) fn opening(plan: &Plan) -> String {
    format!("{}: {} messages", plan.title(), count(plan.messages))
}

/// A writer's progress in the original's form.
pub(super) fn written(number: u32, plan: &Plan, messages: u64, seconds: f64) -> String {
    let megabytes = messages as f64 * plan.size as f64 / 1e6;
    format!(
        "Written writer{number}: rate {:.0} MB/s messages {messages} in {seconds:.2} sec",
        megabytes / seconds.max(1e-9)
    )
}

/// The run with the best durable rate, of those that are sealed or of those that are not.
pub(super) fn best_durable(outcomes: &[Outcome], is_sealed: bool) -> Option<&Outcome> {
    let durable = outcomes.iter().filter(|it| {
        it.is_sound() && it.plan.sync == SyncMode::Batch && it.plan.seal.is_sealed() == is_sealed
    });
    durable.max_by(|a, b| a.rate().total_cmp(&b.rate()))
}

/// Said at the end.
pub(super) fn verdict(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Vec<String> {
    let sound: Vec<&Outcome> = outcomes.iter().filter(|it| it.is_sound()).collect();
    let mut texts = Vec::from_iter(disk.warning());
    let of = |is_sealed| best_durable(outcomes, is_sealed);
    if let Some(best) = of(false) {
        let mut text = format!(
            "{}: {} messages/s, {} MB/s, by group commit",
            disk.durable(),
            rate(best.rate()),
            count(best.megabytes().round() as u64)
        );
        if let Some(naive) = naive {
            text += &format!(
                "; one that syncs each message by itself reached {} in this run",
                rate(naive.durable_per_s),
            );
        }
        texts.push(text + ".");
        if let Some(sealed) = of(true) {
            texts.push(format!(
                "sealed with {} by {}: {:.2} of that.",
                sealed.plan.seal,
                sealed.plan.unit,
                sealed.rate() / best.rate()
            ));
        }
    }
    let is_buffered = sound
        .iter()
        .any(|it| it.plan.sync == SyncMode::Batch && it.streams[0].is_direct == Some(false));
    if is_buffered {
        texts.push(
            "This file system knows no direct I/O: each batch went through the page cache and was \
             synced."
                .to_owned(),
        );
    }
    let slowest = of(false).filter(|best| {
        sound
            .iter()
            .any(|it| it.plan.sync != SyncMode::Batch && it.rate() < best.rate())
    });
    if slowest.is_some() {
        texts.push(
            "Modes none and interval go through the page cache, whose fresh pages cost more here than \
             writing past it; their messages are handed over, and not durable."
                .to_owned(),
        );
    }
    texts.extend((!sound.is_empty()).then(|| {
        "Acknowledgements are timed while the writers append as fast as they can: most of it is queueing."
            .to_owned()
    }));
    if !sound.is_empty() {
        texts.push(ORIGINAL.to_owned());
    }
    if !outcomes.is_empty() && sound.len() == outcomes.len() {
        let messages: u64 = sound.iter().map(|it| it.read).sum();
        texts.push(format!(
            "whole: {} messages were read back, each once, in order, with the bytes they were written \
             with, and every byte of the files was verified.",
            count(messages)
        ));
    }
    texts
}
