//! One run of the flood, from the first send to the file read back.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use freeboard::meter::clock;
use futures_channel::oneshot;

use super::{
    actors::Actors,
    knobs::{DamRule, Receive},
    lines,
    log_server::Account,
    monitor::{Monitor, Queues, WATCH_HEADER, WatchedDam},
    outcome::{Ending, Outcome},
    plan::Plan,
    plots,
    record::{PeakQueue, RunRecord},
    sink::Sink,
    tally::{Event, Tally},
    verify,
};
use crate::{console::Console, interrupt::Interrupt, memory, processor, scene::Run, section::Side};

/// How long the server may go on draining after Ctrl-C.
const INTERRUPTED_DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long a server that was cut has to notice, and everybody to end afterwards.
const CUT_NOTICE_MAX: Duration = Duration::from_secs(1);
const END_MAX: Duration = Duration::from_secs(30);

/// Runs one plan into its sink.
pub(crate) fn run(
    plan: &Plan,
    sink: Option<Sink>,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Run<RunRecord>> {
    console.line(&lines::opening(plan));
    let read_back = sink.as_ref().map(Sink::share).transpose()?;
    memory::reset_peak();
    let (events, inbox) = mpsc::channel();
    let tally = Arc::new(Tally::new(plan.senders, events.clone()));
    let _listening = interrupt.listen(move || {
        let _ = events.send(Event::Interrupted);
    });
    let actors = Actors::spawn(plan, sink, &tally)?;
    if plan.prints_watch {
        console.line(WATCH_HEADER);
    }
    console.start_bar(&plan.title(), plan.total());
    let queues = Queues {
        server: actors.server.clone(),
        dam: actors.dam.clone(),
        tally: tally.clone(),
    };
    let shown = console.clone();
    let monitor = Monitor::start(queues, plan.watch_every, plan.prints_watch, shown)?;

    let hold = if plan.hold {
        Some(actors.hold()?)
    } else {
        None
    };
    let started_ns = clock::now_ns();
    let processor_time = processor::used();
    actors.flood();
    let mut conductor = Conductor::new(plan, &actors, &tally, hold, console);
    let conducted = conductor.conduct(&inbox);
    conductor.dismiss_dam();
    let (ending, at_end_of_flood) = (conductor.ending, conductor.at_end_of_flood);
    let seen = monitor.stop();
    console.end_bars();
    let (account, seen) = (conducted?, seen?);

    let peak_queue = PeakQueue {
        dam: actors.dam.as_ref().map_or(0, |dam| {
            // It has two queues, so the peak of their sum is the longest that anybody saw.
            let mailbox = high_water(&dam.actor.snapshot());
            let peak = mailbox.max(dam.gauge.high_water()).max(seen.dam_peak);
            peak.max(at_end_of_flood.dam).min(tally.accepted())
        }),
        server: high_water(&actors.server.snapshot()).max(at_end_of_flood.server),
    };
    let cpu_s = processor::seconds_since(processor_time);
    let rss_peak_bytes = memory::peak_bytes();
    let unfinished = actors.shut_down();
    let ending = match &account.error {
        Some(error) => Ending::Failed(error.to_string()),
        None => ending,
    };
    let read_back = read_back.map(Sink::read_back).transpose()?;
    let mut verdict = verify::verify(plan, read_back, &account, &tally, &ending);
    if let Some(text) = unfinished {
        verdict.fail(text);
    }
    let is_sound = account.error.is_none();
    let record = RunRecord {
        route: plan.route(),
        receive: plan.receive,
        sink: plan.sink,
        dam: plan.dam,
        senders: plan.senders,
        messages: plan.messages(),
        accepted: tally.accepted(),
        written: account.written,
        shed: tally.accepted().saturating_sub(account.written),
        seconds: account.flushed_ns.saturating_sub(started_ns) as f64 / 1e9,
        drain_rate_deep: account.pace.rate_deep().filter(|_| is_sound),
        drain_rate_shallow: account.pace.rate_shallow().filter(|_| is_sound),
        cpu_s,
        peak_queue,
        verified: verdict.is_whole(),
        rss_peak_bytes,
        watch: seen.watch,
        is_held: plan.hold,
        remarks: Vec::new(),
    };
    let mut outcome = Outcome {
        plan: plan.clone(),
        record,
        ending,
        refused: tally.refused(),
        verdict,
        points: seen.points,
    };
    outcome.record.remarks = lines::remarks(&outcome);
    console.line(&lines::closing(&outcome));
    Ok(finish(outcome))
}

fn finish(outcome: Outcome) -> Run<RunRecord> {
    let side = side(&outcome);
    let plan = &outcome.plan;
    let failure = match outcome.ending {
        Ending::Failed(_) => Some(lines::failure(&outcome)),
        _ if outcome.verdict.is_whole() => None,
        _ => Some(outcome.verdict.finding().to_owned()),
    };
    let title = plan.title();
    let figure = plots::queues(&title, plan, &outcome.record, &outcome.points, side);
    Run {
        title,
        side,
        parameters: lines::opening(plan),
        figures: vec![figure],
        tables: Vec::new(),
        failure,
        record: outcome.record,
    }
}

/// The collapse is a failure. A cure keeps the server's queue far below the flood, or makes its length irrelevant.
fn side(outcome: &Outcome) -> Side {
    let plan = &outcome.plan;
    match (plan.dam, plan.receive) {
        (None, Receive::Scan) if outcome.ending != Ending::Drained => Side::Failure,
        (None, Receive::Scan) => Side::Neither,
        (Some(DamRule::Poll { .. }), _) => Side::Original,
        (None, Receive::Indexed) | (Some(DamRule::Credit { .. }), _) => Side::Cure,
    }
}

fn high_water(actor: &freeboard::meter::ActorSnapshot) -> u64 {
    actor.lanes.first().map_or(0, |lines| lines.high_water)
}

/// Leads a run to its end.
struct Conductor<'a> {
    plan: &'a Plan,
    actors: &'a Actors,
    tally: &'a Tally,
    console: &'a Console,
    hold: Option<oneshot::Sender<()>>,
    ending: Ending,
    /// The queues when the last line had been sent, which is when they are about their longest.
    at_end_of_flood: PeakQueue,
    deadline: Option<Instant>,
    /// What the next deadline means.
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The run is stopped.
    Cut,
    /// The server has not noticed: it is stopped from outside.
    Stop,
    /// Somebody does not end.
    GiveUp,
}

impl<'a> Conductor<'a> {
    fn new(
        plan: &'a Plan,
        actors: &'a Actors,
        tally: &'a Tally,
        hold: Option<oneshot::Sender<()>>,
        console: &'a Console,
    ) -> Self {
        Self {
            plan,
            actors,
            tally,
            console,
            hold,
            ending: Ending::Drained,
            at_end_of_flood: PeakQueue { dam: 0, server: 0 },
            deadline: None,
            step: Step::Cut,
        }
    }

    /// Until every sender is through and the server has ended.
    fn conduct(&mut self, inbox: &mpsc::Receiver<Event>) -> Result<Account> {
        let (mut is_all_sent, mut account) = (false, None);
        loop {
            match self.next_event(inbox) {
                Some(Event::AllSent) => {
                    is_all_sent = true;
                    self.at_end_of_flood = self.look();
                    drop(self.hold.take());
                    self.actors.end_when_drained();
                    if self.deadline.is_none() && account.is_none() {
                        self.deadline = self.plan.limit.map(|limit| Instant::now() + limit);
                    }
                }
                Some(Event::Interrupted) => self.interrupt(),
                Some(Event::ServerStopped(stopped)) => {
                    account = Some(*stopped);
                    self.step = Step::GiveUp;
                    self.deadline = Some(Instant::now() + END_MAX);
                }
                Some(Event::Panicked(text)) => bail!("an actor panicked: {text}"),
                None => self.go_further()?,
            }
            if is_all_sent && let Some(account) = account.take() {
                return Ok(account);
            }
        }
    }

    /// A server that runs is some messages further than its length says: only a held one's counts.
    fn look(&self) -> PeakQueue {
        PeakQueue {
            dam: self.actors.dam.as_ref().map_or(0, WatchedDam::depth),
            server: self.hold.as_ref().map_or(0, |_| self.actors.server.depth()),
        }
    }

    /// `None` at the deadline.
    fn next_event(&self, inbox: &mpsc::Receiver<Event>) -> Option<Event> {
        match self.deadline {
            None => inbox.recv().ok(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                inbox.recv_timeout(left).ok()
            }
        }
    }

    fn interrupt(&mut self) {
        self.console.line(&format!(
            "      Ctrl-C: nothing more is sent; up to {} s for what is queued (again: exit at once)",
            INTERRUPTED_DRAIN_MAX.as_secs()
        ));
        self.tally.stop_sending();
        self.ending = Ending::Interrupted;
        if self.step == Step::Cut {
            let until = Instant::now() + INTERRUPTED_DRAIN_MAX;
            self.deadline = Some(self.deadline.map_or(until, |planned| planned.min(until)));
        }
    }

    fn go_further(&mut self) -> Result<()> {
        let patience = match self.step {
            Step::Cut => {
                if let (Ending::Drained, Some(limit)) = (&self.ending, self.plan.limit) {
                    self.ending = Ending::Limit(limit);
                }
                self.tally.stop_sending();
                self.tally.cut();
                drop(self.hold.take());
                self.step = Step::Stop;
                CUT_NOTICE_MAX
            }
            Step::Stop => {
                self.actors.server.stop();
                self.step = Step::GiveUp;
                END_MAX
            }
            Step::GiveUp => bail!("the actors did not end within {} s", END_MAX.as_secs()),
        };
        self.deadline = Some(Instant::now() + patience);
        Ok(())
    }

    /// A dam whose server has ended finds that out when it next looks; one that would wait longer
    /// than that is stopped. Either way it sheds what it holds.
    fn dismiss_dam(&self) {
        let Some(dam) = &self.actors.dam else {
            return;
        };
        let soon = Instant::now() + CUT_NOTICE_MAX;
        if dam.actor.wait_ended_until(soon).is_none() {
            dam.actor.stop();
            // One that does not end now is found by the shutdown.
            let _ = dam.actor.wait_ended_until(Instant::now() + CUT_NOTICE_MAX);
        }
    }
}
