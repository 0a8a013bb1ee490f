//! One run: producers released, consumer drained, what came compared with what was sent.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use freeboard::{System, flow::LaneConfig, meter::clock};

use super::{
    consumer::{Account, Consumer},
    idle::Idle,
    plan::Plan,
    producer::{self, Signals},
    runtime,
    share::Share,
    verdict,
};
use crate::{board, console::Console, figures::count, interrupt::Interrupt, processor};

const BAR_EVERY: Duration = Duration::from_millis(200);
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// What the run hears of.
#[derive(Debug)]
pub(crate) enum Event {
    /// A producer is through, with so many of its share accepted.
    ProducerEnded(Share, u64),
    /// The consumer has ended.
    ConsumerEnded(Account),
    /// An actor panicked.
    Panicked(String),
    /// Ctrl-C.
    Interrupted,
}

/// A run and what came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) was_interrupted: bool,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Messages that were not the next of their producer and priority.
    pub(crate) disordered: u64,
    /// Messages of a producer and priority that did not come, or came too often.
    pub(crate) missing: u64,
    /// From the producers' start until the last message was handled.
    pub(crate) seconds: f64,
    /// Of the whole process, in between.
    pub(crate) processor_seconds: Option<f64>,
}

impl Outcome {
    /// Messages a second.
    pub(crate) fn rate(&self) -> f64 {
        self.received as f64 / self.seconds.max(1e-9)
    }

    /// Whether all that was sent came, in order.
    pub(crate) fn is_sound(&self) -> bool {
        self.disordered == 0
            && self.missing == 0
            && self.received == self.sent
            && (self.was_interrupted || self.sent == self.plan.messages)
    }

    /// What was found, in words.
    pub(crate) fn finding(&self) -> String {
        format!(
            "{} of {} messages came, {} of them out of turn, {} missing by priority",
            count(self.received),
            count(self.plan.messages),
            count(self.disordered),
            count(self.missing)
        )
    }
}

/// Runs one plan.
pub(crate) fn run(plan: &Plan, console: &Console, interrupt: &Interrupt) -> Result<Outcome> {
    let (events, inbox) = mpsc::channel();
    let (failed, interrupted) = (events.clone(), events.clone());
    let _listening = interrupt.listen(move || {
        let _ = interrupted.send(Event::Interrupted);
    });
    let system = System::builder()
        .name("ring")
        .workers(1)
        .on_failure(move |failure| {
            let _ = failed.send(Event::Panicked(failure.to_string()));
        })
        .build()
        .context("cannot start the actor system")?;
    board::watch(&system);
    let lanes = (0..plan.priorities).map(|_| LaneConfig::bounded(plan.ring));
    let options = runtime::pinned(plan.wait, lanes.collect()).name("consumer");
    // They wait until the system ends.
    for number in 0..plan.idle {
        let lanes = vec![LaneConfig::bounded(plan.ring)];
        let options = runtime::pinned(plan.wait, lanes).name(format!("idle-{number}"));
        system.spawn_once(options, Idle)?;
    }
    let consumer = system.spawn_once(options, Consumer::new(plan, events.clone()))?;
    let signals = Arc::new(Signals::new(plan.producers));
    for share in plan.shares() {
        let (consumer, signals, events) = (consumer.clone(), signals.clone(), events.clone());
        thread::Builder::new()
            .name(format!("ring-producer-{}", share.producer))
            .spawn(move || {
                let sent = producer::produce(share, &consumer, &signals);
                // Nobody listens any more if the run was given up.
                let _ = events.send(Event::ProducerEnded(share, sent));
            })
            .context("cannot start a producer's thread")?;
    }
    console.line(&verdict::opening(plan));
    console.start_bar(&plan.title(), plan.messages);
    signals.gate.wait();
    let (started_ns, processor_time) = (clock::now_ns(), processor::used());
    signals.gate.wait();
    let ended = wait_for_all(plan, &inbox, &signals, console, || {
        consumer.stop_gracefully();
    });
    let processor_seconds = processor::seconds_since(processor_time);
    console.end_bars();
    let ended = ended?;
    let report = system.shutdown(SHUTDOWN_MAX);
    if !report.is_clean() {
        bail!("not everybody ended in time: {report:?}");
    }
    let account = ended.account;
    Ok(Outcome {
        plan: plan.clone(),
        was_interrupted: ended.was_interrupted,
        sent: ended.sent.iter().map(|(_, sent)| sent).sum(),
        received: account.received,
        disordered: account.disordered,
        missing: missing(&ended.sent, &account),
        seconds: account.done_ns.saturating_sub(started_ns) as f64 / 1e9,
        processor_seconds,
    })
}

/// How the parts of a run ended.
struct Ended {
    sent: Vec<(Share, u64)>,
    account: Account,
    was_interrupted: bool,
}

/// Until all producers and the consumer have ended; calls `drain` in between.
fn wait_for_all(
    plan: &Plan,
    inbox: &mpsc::Receiver<Event>,
    signals: &Signals,
    console: &Console,
    drain: impl Fn(),
) -> Result<Ended> {
    let (mut sent, mut account, mut was_interrupted) = (Vec::new(), None, false);
    loop {
        match inbox.recv_timeout(BAR_EVERY) {
            Ok(Event::ProducerEnded(share, count)) => {
                sent.push((share, count));
                if sent.len() == plan.producers as usize {
                    drain();
                }
            }
            Ok(Event::ConsumerEnded(ended)) => account = Some(ended),
            Ok(Event::Panicked(text)) => bail!("the consumer panicked: {text}"),
            Ok(Event::Interrupted) => {
                console.line("Ctrl-C: nothing more is sent (again: exit at once)");
                was_interrupted = true;
                signals.stop();
            }
            Err(_) => {
                let sent = signals.sent();
                console.move_bar(sent, format!("{} sent", count(sent)));
            }
        }
        if sent.len() == plan.producers as usize
            && let Some(account) = account.take()
        {
            return Ok(Ended {
                sent,
                account,
                was_interrupted,
            });
        }
    }
}

/// How far what came is from what was sent, over all producers and lanes.
fn missing(sent: &[(Share, u64)], account: &Account) -> u64 {
    let of_share = |(share, sent): &(Share, u64)| -> u64 {
        let lanes = 0..share.lanes;
        lanes
            .map(|lane| {
                let index = (share.producer * share.lanes + lane) as usize;
                account.counts[index].abs_diff(share.on_lane(*sent, lane))
            })
            .sum()
    };
    sent.iter().map(of_share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_found_by_lane() {
        let share = |producer| Share {
            producer,
            messages: 10,
            lanes: 2,
        };
        let sent = [(share(1), 3), (share(0), 10)];
        let check = |counts: [u64; 4], wanted| {
            let account = Account {
                received: counts.iter().sum(),
                disordered: 0,
                counts: counts.into(),
                done_ns: 1,
            };
            assert_eq!(missing(&sent, &account), wanted, "{counts:?}");
        };
        check([5, 5, 2, 1], 0);
        check([5, 4, 2, 1], 1);
        check([4, 6, 1, 2], 4);
    }
}
