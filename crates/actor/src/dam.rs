//! The dam: a throttling proxy in front of an actor.
//!
//! Messages that the receiver cannot take yet wait in the dam's *reservoir*, bounded in messages and in bytes, so
//! that the receiver's mailbox stays short. [`Dam`] describes the two rules.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use freeboard_flow::{AdaptiveLimit, ConfigError, Overload, ReservoirBound, ShedReason};
use freeboard_meter::{Counter, Exposition, Peak, metrics};

use crate::{
    actor::{Actor, Handler, Message},
    context::Context,
    credit::{CreditLine, Receipt},
    current::{self, DeadlineScope},
    error::TellError,
    recipient::Recipient,
    sync::{AtomicU64, Ordering},
};

/// How long a dam waits before it retries a receiver that refused although there was credit.
const RETRY: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Polling { threshold: u64, wait: Duration },
    Credit { window: u64 },
    Adaptive(AdaptiveLimit),
}

/// Why a dam could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamError {
    /// The reservoir's bound is out of range.
    #[error("a dam's reservoir: {0}")]
    Reservoir(#[from] ConfigError),
    /// A window of zero forwards nothing.
    #[error("a dam's credit window is at least 1")]
    Window,
    /// The adaptive limit is out of range.
    #[error("a dam's limit: {0}")]
    Limit(ConfigError),
    /// A reservoir does not support this policy.
    #[error("a dam's reservoir cannot {0:?}: use Wait, Reject, DropNewest or DropOldest")]
    Overload(Overload),
}

/// Settings of a [`Dam`].
#[must_use]
pub struct DamBuilder<M> {
    rule: Rule,
    bound: ReservoirBound,
    overload: Overload,
    weigh: fn(&M) -> u64,
    lane: usize,
}

impl<M> fmt::Debug for DamBuilder<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DamBuilder")
            .field("rule", &self.rule)
            .field("bound", &self.bound)
            .field("overload", &self.overload)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

impl<M: Message> DamBuilder<M> {
    fn new(rule: Rule) -> Self {
        Self {
            rule,
            bound: ReservoirBound::default(),
            overload: Overload::Wait,
            weigh: |_| size_of::<M>() as u64,
            lane: 0,
        }
    }

    /// The bound of the reservoir; default 1,048,576 messages and 256 MiB.
    pub fn reservoir(mut self, bound: ReservoirBound) -> Self {
        self.bound = bound;
        self
    }

    /// The policy of a full reservoir. [`Overload::Wait`] (the default) pauses the dam's own mailbox, whose policy
    /// then applies; `DropNewest` and `Reject` shed the new message, `DropOldest` the oldest in the reservoir.
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overload = overload;
        self
    }

    /// The weight of a message in bytes; default: the size of its type.
    pub fn weigh(mut self, weigh: fn(&M) -> u64) -> Self {
        self.weigh = weigh;
        self
    }

    /// The receiver's lane that messages are forwarded to; default 0. Several dams may stand in front of one actor, one
    /// for each of its lanes. If the receiver has no such lane, the dam stops, as if the receiver had terminated.
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self
    }

    /// Builds the dam, ready to be spawned. It forwards its messages to `receiver`, in order.
    ///
    /// # Errors
    /// [`DamError`] for settings out of range.
    pub fn in_front_of(self, receiver: Recipient<M>) -> Result<Dam<M>, DamError> {
        validate(self.bound, self.overload)?;
        if self.rule == (Rule::Credit { window: 0 }) {
            return Err(DamError::Window);
        }
        let line = match self.rule {
            Rule::Credit { window } => Some(Arc::new(CreditLine::new(window))),
            Rule::Adaptive(limit) => {
                limit.validate().map_err(DamError::Limit)?;
                Some(Arc::new(CreditLine::adaptive(limit)))
            }
            Rule::Polling { .. } => None,
        };
        Ok(Dam {
            receiver,
            rule: self.rule,
            bound: self.bound,
            overload: self.overload,
            weigh: self.weigh,
            lane: self.lane,
            gauge: DamGauge::of(line.clone()),
            control: DamControl::default(),
            line,
            credit: 0,
            reservoir: VecDeque::new(),
            bytes: 0,
            is_waiting: false,
        })
    }
}

fn validate(bound: ReservoirBound, overload: Overload) -> Result<(), DamError> {
    bound.validate()?;
    let is_supported = matches!(
        overload,
        Overload::Wait | Overload::Reject | Overload::DropNewest | Overload::DropOldest
    );
    is_supported
        .then_some(())
        .ok_or(DamError::Overload(overload))
}

/// Changes the reservoir of a dam that runs. Cheap to clone.
#[derive(Clone, Default)]
pub struct DamControl(Arc<Control>);

#[derive(Default)]
struct Control {
    wanted: Mutex<Option<(ReservoirBound, Overload)>>,
    /// Makes the dam look at `wanted`. Set before the dam first looks, so no change is missed.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for DamControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DamControl")
    }
}

impl DamControl {
    /// Sets the bound of the reservoir and the policy of a full one. Messages that are in the reservoir stay, in order.
    /// After the dam has terminated it changes nothing.
    ///
    /// # Errors
    /// [`DamError`] for settings out of range; nothing is changed.
    pub fn set(&self, bound: ReservoirBound, overload: Overload) -> Result<(), DamError> {
        validate(bound, overload)?;
        let before = self.lock().replace((bound, overload));
        // Otherwise the dam has not looked since the last change, and will.
        if before.is_none()
            && let Some(wake) = self.0.wake.get()
        {
            wake();
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(ReservoirBound, Overload)>> {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct DamCounters {
    line: Option<Arc<CreditLine>>,
    depth: AtomicU64,
    bytes: AtomicU64,
    high_water: Peak,
    forwarded: Counter,
    shed: Counter,
}

/// Reads a dam's counters from any thread.
#[derive(Clone, Default)]
pub struct DamGauge(Arc<DamCounters>);

impl fmt::Debug for DamGauge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DamGauge({})", self.depth())
    }
}

metrics! {
    const DAM: DamGauge;
    gauge "freeboard_dam_depth" = |it| it.depth(), "Messages in the dam's reservoir now.";
    gauge "freeboard_dam_high_water" = |it| it.high_water(),
        "The most messages that its reservoir has held.";
    counter "freeboard_dam_messages_forwarded_total" = |it| it.forwarded(),
        "Messages that the dam has let through.";
    counter "freeboard_dam_messages_shed_total" = |it| it.shed(),
        "Messages that its reservoir had no capacity for.";
    gauge "freeboard_dam_limit" = |it| it.limit(),
        "Forwarded messages that may be queued at the receiver; 0 for a polling dam.";
}

impl DamGauge {
    fn of(line: Option<Arc<CreditLine>>) -> Self {
        Self(Arc::new(DamCounters {
            line,
            ..DamCounters::default()
        }))
    }

    /// Forwarded messages that may be queued at the receiver now: the window of a credit dam, the current limit of an
    /// adaptive one, 0 for a polling one.
    pub fn limit(&self) -> u64 {
        self.0.line.as_ref().map_or(0, |line| line.window())
    }

    /// Messages in the reservoir.
    pub fn depth(&self) -> u64 {
        // Ordering: Relaxed, a gauge.
        self.0.depth.load(Ordering::Relaxed)
    }

    /// The weight of the messages in the reservoir, in bytes.
    pub fn bytes(&self) -> u64 {
        // Ordering: Relaxed, a gauge.
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// The highest number of messages in the reservoir so far.
    pub fn high_water(&self) -> u64 {
        self.0.high_water.get()
    }

    /// Messages forwarded.
    pub fn forwarded(&self) -> u64 {
        self.0.forwarded.get()
    }

    /// Messages that the dam has shed.
    pub fn shed(&self) -> u64 {
        self.0.shed.get()
    }

    /// Adds these metrics to `text`, labelled with the dam's name.
    pub fn render(&self, dam: &str, text: &mut Exposition) {
        text.metrics(DAM, &[("dam", dam)], self);
    }
}

/// An actor that forwards messages of one type to another actor, as fast as that one handles them. The others wait
/// in its reservoir, bounded in messages and in bytes.
///
/// - [`Dam::polling`] is the original rule (of an Erlang log server, 2019): read the receiver's queue length; if it
///   is above the threshold, sleep and read it again.
/// - [`Dam::credit`] neither polls nor sleeps: each forwarded message takes one credit of a window and returns it
///   once it was handled or shed.
/// - [`Dam::adaptive`] is a credit dam that finds its window by the latencies of the messages that it has forwarded.
///
/// ```
/// use freeboard_actor::{Actor, Context, Dam, Handler, System};
///
/// struct Writer(u64);
/// impl Actor for Writer {}
/// impl Handler<String> for Writer {
///     type Reply = ();
///     fn handle(&mut self, _line: String, _cx: &mut Context<Self>) {
///         self.0 += 1;
///     }
/// }
///
/// let system = System::builder().workers(1).build()?;
/// let writer = system.spawn(Writer(0));
/// let dam = system.spawn(Dam::credit(1_024).in_front_of(writer.recipient::<String>())?);
/// dam.tell("a line".to_owned())?;
/// # system.shutdown(std::time::Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Dam<M: Message> {
    receiver: Recipient<M>,
    rule: Rule,
    bound: ReservoirBound,
    overload: Overload,
    weigh: fn(&M) -> u64,
    lane: usize,
    line: Option<Arc<CreditLine>>,
    /// Credit taken from the line and not spent yet.
    credit: u64,
    reservoir: VecDeque<Kept<M>>,
    bytes: u64,
    /// A timer or a refill will call [`Dam::retry`].
    is_waiting: bool,
    gauge: DamGauge,
    control: DamControl,
}

/// A message of the reservoir, and the deadline that its sender gave it.
struct Kept<M> {
    msg: M,
    deadline_ns: u64,
}

enum Passage {
    /// The dam's rule forbids it: the receiver's queue is too long, or there is no credit.
    Barred,
    /// The receiver refused it, because other senders fill its mailbox.
    Refused,
    /// The receiver has terminated.
    Gone,
}

impl<M: Message> Dam<M> {
    /// The original rule: forwards while the receiver has at most `threshold` queued messages; otherwise sleeps for
    /// `wait` and checks again. Its rate is at most `threshold / wait`, however fast the receiver is.
    pub fn polling(threshold: u64, wait: Duration) -> DamBuilder<M> {
        DamBuilder::new(Rule::Polling { threshold, wait })
    }

    /// At most `window` of the dam's messages are queued at the receiver at any time.
    pub fn credit(window: u64) -> DamBuilder<M> {
        DamBuilder::new(Rule::Credit { window })
    }

    /// A credit dam whose window follows the latencies from forwarding to the end of the handler: it lets the receiver
    /// work at its capacity with a short queue. `freeboard_flow` describes the law. A message that was shed gives its
    /// credit back and has no latency.
    pub fn adaptive(limit: AdaptiveLimit) -> DamBuilder<M> {
        DamBuilder::new(Rule::Adaptive(limit))
    }

    /// A reader of the dam's counters. Take it before the dam is spawned.
    pub fn gauge(&self) -> DamGauge {
        self.gauge.clone()
    }

    /// Changes the reservoir while the dam runs. Take it before the dam is spawned.
    pub fn control(&self) -> DamControl {
        self.control.clone()
    }

    /// Applies what [`DamControl::set`] wants.
    fn reconfigure(&mut self, cx: &mut Context<Self>) {
        let wanted = self.control.lock().take();
        if let Some((bound, overload)) = wanted {
            self.bound = bound;
            self.overload = overload;
            self.release(cx);
        }
    }

    fn forward(&mut self, kept: Kept<M>) -> Result<(), (Kept<M>, Passage)> {
        let Kept { msg, deadline_ns } = kept;
        let kept = |msg| Kept { msg, deadline_ns };
        // The deadline of the current message is not that of the messages in the reservoir.
        let _scope = DeadlineScope::enter(deadline_ns);
        let told = match (self.rule, &self.line) {
            (Rule::Polling { threshold, .. }, _) => {
                if self.receiver.depth() > threshold && self.receiver.is_alive() {
                    return Err((kept(msg), Passage::Barred));
                }
                self.receiver.try_tell_lane(self.lane, msg)
            }
            (Rule::Credit { .. } | Rule::Adaptive(_), Some(line)) => {
                if self.credit == 0 {
                    self.credit = line.take();
                }
                if self.credit == 0 {
                    return Err((kept(msg), Passage::Barred));
                }
                // Spent in any case: a refused message's receipt gives it back to the line.
                self.credit -= 1;
                self.receiver
                    .try_tell_with_receipt(self.lane, msg, Receipt::of(line))
            }
            (Rule::Credit { .. } | Rule::Adaptive(_), None) => {
                unreachable!("a credit dam has a line")
            }
        };
        match told {
            Ok(()) => {
                self.gauge.0.forwarded.add(1);
                Ok(())
            }
            Err(TellError::Full(msg)) => Err((kept(msg), Passage::Refused)),
            // `try_tell` neither blocks nor uses the outbox.
            Err(refused) => Err((kept(refused.into_inner()), Passage::Gone)),
        }
    }

    /// Pauses its own lane while the reservoir is full: the lane fills up, and its policy applies.
    fn pause_if_full(&self, cx: &mut Context<Self>) {
        let is_paused = self.overload == Overload::Wait && self.is_full();
        cx.paused_lanes = if is_paused { u8::MAX } else { 0 };
    }

    fn keep(&mut self, kept: Kept<M>, cx: &mut Context<Self>) {
        let bytes = (self.weigh)(&kept.msg);
        let fits = |dam: &Self| dam.bound.fits(dam.reservoir.len() as u64, dam.bytes, bytes);
        let may_evict = self.overload == Overload::DropOldest && bytes <= self.bound.bytes;
        while may_evict && !fits(self) && !self.reservoir.is_empty() {
            self.pop();
            self.count_shed(cx, ShedReason::DroppedOldest);
        }
        // Under Wait a message above the bound is kept: there is no sender to return it to.
        if fits(self) || self.overload == Overload::Wait {
            self.bytes += bytes;
            self.reservoir.push_back(kept);
            self.gauge.0.high_water.raise(self.reservoir.len() as u64);
            cx.set_unfinished(true);
            self.pause_if_full(cx);
        } else {
            self.count_shed(cx, ShedReason::DroppedNewest);
        }
        self.publish();
    }

    /// Sets the gauges of the reservoir.
    fn publish(&self) {
        // Ordering: Relaxed, gauges.
        let depth = self.reservoir.len() as u64;
        self.gauge.0.depth.store(depth, Ordering::Relaxed);
        self.gauge.0.bytes.store(self.bytes, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        !self.bound.fits(self.reservoir.len() as u64, self.bytes, 1)
    }

    fn pop(&mut self) -> Option<Kept<M>> {
        let kept = self.reservoir.pop_front()?;
        self.bytes -= (self.weigh)(&kept.msg);
        Some(kept)
    }

    fn count_shed(&self, cx: &Context<Self>, reason: ShedReason) {
        self.gauge.0.shed.add(1);
        cx.note_dead_letter(std::any::type_name::<M>(), reason);
    }

    /// Forwards as far as possible, then schedules a retry.
    fn release(&mut self, cx: &mut Context<Self>) {
        while let Some(kept) = self.pop() {
            match self.forward(kept) {
                Ok(()) => cx.note_progress(),
                Err((kept, Passage::Gone)) => {
                    drop(kept);
                    self.lose_receiver(cx);
                }
                Err((kept, barred)) => {
                    self.bytes += (self.weigh)(&kept.msg);
                    self.reservoir.push_front(kept);
                    if self.wait_for_capacity(&barred, cx) {
                        break;
                    }
                }
            }
        }
        self.publish();
        cx.set_unfinished(!self.reservoir.is_empty());
        self.pause_if_full(cx);
    }

    /// A timer or a refill reports that there may be capacity.
    fn retry(&mut self, cx: &mut Context<Self>) {
        self.is_waiting = false;
        self.release(cx);
    }

    /// The receiver has terminated: sheds everything and stops.
    fn lose_receiver(&mut self, cx: &mut Context<Self>) {
        self.count_shed(cx, ShedReason::NoReceiver);
        while self.pop().is_some() {
            self.count_shed(cx, ShedReason::NoReceiver);
        }
        cx.stop();
    }

    /// Schedules a retry; `false` if there is capacity by now.
    fn wait_for_capacity(&mut self, barred: &Passage, cx: &mut Context<Self>) -> bool {
        if self.is_waiting {
            return true;
        }
        let delay = match (self.rule, &self.line, barred) {
            (Rule::Credit { .. } | Rule::Adaptive(_), Some(line), Passage::Barred) => {
                self.is_waiting = line.wait_for_refill(|| cx.waker_fn(Self::retry));
                return self.is_waiting;
            }
            (Rule::Polling { wait, .. }, _, Passage::Barred) => wait,
            _ => RETRY,
        };
        if let Err(error) = cx.wake_after(delay, Self::retry) {
            // The system is about to end, or out of threads; a retry at once would only spin.
            tracing::error!("a dam cannot wait: {error}");
        }
        self.is_waiting = true;
        true
    }
}

impl<M: Message> Actor for Dam<M> {
    fn started(&mut self, cx: &mut Context<Self>) {
        let wake = Box::new(cx.waker_fn(Self::reconfigure));
        // A dam is started once.
        let _ = self.control.0.wake.set(wake);
        self.reconfigure(cx);
    }

    /// A drained dam has forwarded everything; a stopped one sheds its reservoir.
    fn stopped(&mut self, cx: &mut Context<Self>) {
        while self.pop().is_some() {
            self.count_shed(cx, ShedReason::Stopped);
        }
        self.publish();
    }
}

// No help in an error about another actor.
#[diagnostic::do_not_recommend]
impl<M: Message> Handler<M> for Dam<M> {
    type Reply = ();

    fn handle(&mut self, msg: M, cx: &mut Context<Self>) {
        let deadline_ns = current::deadline_ns();
        let kept = Kept { msg, deadline_ns };
        if self.is_waiting || !self.reservoir.is_empty() {
            self.keep(kept, cx);
            return;
        }
        match self.forward(kept) {
            Ok(()) => {}
            Err((kept, Passage::Gone)) => {
                drop(kept);
                self.lose_receiver(cx);
            }
            Err((kept, barred)) => {
                self.keep(kept, cx);
                if !self.wait_for_capacity(&barred, cx) {
                    self.release(cx);
                }
            }
        }
    }
}
