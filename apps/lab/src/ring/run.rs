//! One run: producers released, consumer drained, what came compared with what was sent.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use freeboard::{
    Actor, Blocking, BusySpin, Dispatcher, Sleeping, SpawnOptions, System, Yielding,
    flow::LaneConfig, meter::clock,
};

use super::{
    Record,
    consumer::{Account, Consumer},
    plan::{Plan, Wait},
    producer::{self, Share, Signals},
};
use crate::{
    board, console::Console, figures::count, interrupt::Interrupt, processor, scene::Run,
    section::Side,
};

const BAR_EVERY: Duration = Duration::from_millis(200);
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// What the run hears of.
#[derive(Debug)]
pub(super) enum Event {
    /// A producer is through, with so many of its share accepted.
    ProducerEnded(Share, u64),
    /// The consumer has ended.
    ConsumerEnded(Account),
    /// An actor panicked.
    Panicked(String),
    /// Ctrl-C.
    Interrupted,
}

/// Idles beside the consumer.
#[derive(Debug)]
struct Idle;

impl Actor for Idle {}

/// The most messages that a round takes from each priority. The shares are equal because the messages are spread evenly. A
/// lane with a smaller share would fill, and the producer would wait for it while the others are empty.
const BATCH: u32 = 128;

/// An actor with these lanes, on its own thread.
fn pinned(wait: Wait, lanes: Vec<LaneConfig>) -> SpawnOptions {
    let dispatcher = match wait {
        Wait::Blocking => Dispatcher::pinned(Blocking::default()),
        Wait::Sleeping => Dispatcher::pinned(Sleeping::default()),
        Wait::Yielding => Dispatcher::pinned(Yielding::default()),
        Wait::Busyspin => Dispatcher::pinned(BusySpin),
    };
    SpawnOptions::new().lanes(lanes).dispatcher(dispatcher)
}

/// Runs one plan.
pub(super) fn run(plan: &Plan, console: &Console, interrupt: &Interrupt) -> Result<Run<Record>> {
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
    let lanes = (0..plan.priorities).map(|_| LaneConfig::bounded(plan.ring).batch(BATCH));
    let options = pinned(plan.wait, lanes.collect()).name("consumer");
    // They wait until the system ends.
    for number in 0..plan.idle {
        let lanes = vec![LaneConfig::bounded(plan.ring)];
        let options = pinned(plan.wait, lanes).name(format!("idle-{number}"));
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
    console.line(&plan.parameters());
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
    let account = &ended.account;
    let seconds = account.done_ns.saturating_sub(started_ns) as f64 / 1e9;
    let failure = failure(plan, &ended);
    let run = Run {
        title: plan.title(),
        side: match (plan.idle, plan.wait) {
            (1.., Wait::Busyspin) => Side::Failure,
            (1.., Wait::Blocking) => Side::Cure,
            _ => Side::Neither,
        },
        record: Record {
            wait: plan.wait,
            priorities: plan.priorities,
            ring: plan.ring,
            producers: plan.producers,
            idle: plan.idle,
            messages: account.received,
            seconds,
            qps: account.received as f64 / seconds.max(1e-9),
            cpu_s: processor_seconds,
        },
        parameters: plan.parameters(),
        figures: Vec::new(),
        tables: Vec::new(),
        failure,
    };
    console.line(&line(&run));
    Ok(run)
}

/// The run in the original's form.
fn line(run: &Run<Record>) -> String {
    let Record {
        seconds,
        qps,
        priorities,
        ring,
        ..
    } = run.record;
    let failure = run.failure.as_ref();
    let failure = failure.map_or_else(String::new, |it| format!("; {it}"));
    format!(
        "    elapsed: {:.0} ms, QPS: {qps:.0}, priorities: {priorities}, ring: {ring}{failure}",
        seconds * 1e3
    )
}

/// What was lost or out of order, if something was.
fn failure(plan: &Plan, ended: &Ended) -> Option<String> {
    let account = &ended.account;
    let sent: u64 = ended.sent.iter().map(|(_, sent)| sent).sum();
    let missing = missing(&ended.sent, account);
    let is_sound = account.disordered == 0
        && missing == 0
        && account.received == sent
        && (ended.was_interrupted || sent == plan.messages);
    (!is_sound).then(|| {
        format!(
            "{} of {} messages came, {} of them out of order, {} missing by priority",
            count(account.received),
            count(plan.messages),
            count(account.disordered),
            count(missing)
        )
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
