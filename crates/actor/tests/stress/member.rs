//! The actor of the stress test: each message may make it do anything that an actor can do.

use crate::common::*;
use crate::{
    observed,
    record::{Carrier, Sent, Token},
    world::{Role, Target, World},
};

/// A message with fuel for further ones. Its clones, which timers make, are messages of their own.
pub(crate) struct Fast {
    pub(crate) fuel: u64,
    pub(crate) token: Token,
}

/// One that is handled by a future.
pub(crate) struct Slow(pub(crate) Fast);

/// One that does not fit into an envelope.
pub(crate) struct Wide(
    pub(crate) Fast,
    #[expect(dead_code, reason = "its size")] pub(crate) [u64; 8],
);

/// Keeps a server at a gate.
pub(crate) struct Hold(pub(crate) Fast, pub(crate) Gate);

/// Has a member block for a server.
pub(crate) struct Call(pub(crate) Fast);

impl Carrier for Fast {
    fn token(&self) -> &Token {
        &self.token
    }
}

macro_rules! carriers {
    ($($carrier:ty),*) => {$(
        impl Carrier for $carrier {
            fn token(&self) -> &Token {
                &self.0.token
            }
        }
    )*};
}

carriers!(Slow, Wide, Hold, Call);

impl Clone for Fast {
    fn clone(&self) -> Self {
        // Now and then the clone of a periodic timer panics.
        assert!(self.fuel != u64::MAX, "on purpose, in a clone");
        Self {
            fuel: self.fuel,
            token: self.token.another(),
        }
    }
}

pub(crate) struct Member {
    world: Arc<World>,
    random: Random,
    role: Role,
    lanes: usize,
    timers: Vec<TimerKey>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.world.member_gone();
    }
}

impl Actor for Member {
    fn started(&mut self, _cx: &mut Context<Self>) {
        self.maybe_panic(4);
    }

    fn stopped(&mut self, _cx: &mut Context<Self>) {
        // Messages sent here are delivered as well.
        if self.role == Role::Mesh {
            (0..self.random.below(4)).for_each(|_| self.tell(0));
        }
        self.maybe_panic(4);
    }
}

impl Handler<Fast> for Member {
    type Reply = u64;

    fn handle(&mut self, fast: Fast, cx: &mut Context<Self>) -> u64 {
        fast.token.begin();
        self.act(fast.fuel, cx);
        fast.token.finish()
    }

    fn coalesce_key(fast: &Fast) -> Option<u64> {
        Some(fast.fuel)
    }
}

impl Handler<Wide> for Member {
    type Reply = u64;

    fn handle(&mut self, wide: Wide, cx: &mut Context<Self>) -> u64 {
        Handler::<Fast>::handle(self, wide.0, cx)
    }
}

impl Handler<Hold> for Member {
    type Reply = u64;

    fn handle(&mut self, hold: Hold, _cx: &mut Context<Self>) -> u64 {
        hold.0.token.begin();
        hold.1.pass();
        hold.0.token.finish()
    }
}

impl Handler<Call> for Member {
    type Reply = u64;

    fn handle(&mut self, call: Call, cx: &mut Context<Self>) -> u64 {
        call.0.token.begin();
        // The servers' lanes hold few: most of those that tell block, too.
        match self.random.below(2) {
            0 => self.ask_server(call.0.fuel),
            _ => self.fill_server(call.0.fuel),
        }
        self.act(0, cx);
        call.0.token.finish()
    }
}

impl AsyncHandler<Slow> for Member {
    type Reply = u64;

    async fn handle(&mut self, slow: Slow, cx: &mut Context<Self>) -> u64 {
        slow.0.token.begin();
        for _ in 0..self.random.below(3) {
            yield_once().await;
        }
        if self.role == Role::Mesh && self.world.may_send() {
            self.act_async(slow.0.fuel).await;
        }
        self.act(slow.0.fuel, cx);
        slow.0.token.finish()
    }
}

impl Handler<Terminated> for Member {
    type Reply = ();

    fn handle(&mut self, _ended: Terminated, _cx: &mut Context<Self>) {
        self.maybe_panic(1);
    }
}

async fn yield_once() {
    let mut is_first = true;
    poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// Polls a future so many times, with a turn of others in between, then drops it.
async fn poll_and_drop<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(output) = polled.await {
            return Some(output);
        }
        yield_once().await;
    }
    None
}

impl Member {
    pub(crate) fn new(world: Arc<World>, random: Random, role: Role, lanes: usize) -> Self {
        Self {
            world,
            random,
            role,
            lanes,
            timers: Vec::new(),
        }
    }

    fn maybe_panic(&mut self, times: u64) {
        let panic_in = self.world.panic_in * times;
        let strikes = self.world.strikes(&mut self.random, panic_in);
        assert!(!strikes, "on purpose");
    }

    fn micros(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.random.below(limit))
    }

    fn act(&mut self, fuel: u64, cx: &mut Context<Self>) {
        self.maybe_panic(1);
        if self.world.strikes(&mut self.random, self.world.stop_in) {
            self.stop_somebody(cx);
        }
        if fuel == 0 || !self.world.may_send() {
            return;
        }
        for _ in 0..1 + self.random.below(2) {
            match self.role {
                Role::Mesh => self.act_freely(fuel - 1, cx),
                Role::Server => self.act_as_server(fuel - 1, cx),
            }
        }
    }

    fn act_freely(&mut self, fuel: u64, cx: &mut Context<Self>) {
        match self.random.below(16) {
            0 => self.send_all(fuel, cx),
            1 => self.tell_blocking(fuel),
            2 => self.ask_server(fuel),
            3 => self.ask_anybody(fuel),
            4 => self.spawn(cx),
            5 => self.tell_or_log(fuel, cx),
            6..=8 => self.act_as_server(fuel, cx),
            _ => self.tell(fuel),
        }
    }

    /// What waits for nobody.
    fn act_as_server(&mut self, fuel: u64, cx: &mut Context<Self>) {
        match self.random.below(8) {
            0 => self.pause(cx),
            1 => self.set_timer(fuel, cx),
            2 => {
                if let Some(timer) = self.timers.pop() {
                    cx.cancel(timer);
                }
            }
            3 => {
                if let Some(fast) = cx.receive_matching(|fast: &Fast| fast.fuel.is_multiple_of(2)) {
                    fast.token.take();
                }
            }
            4 => cx.watch(&self.world.any(&mut self.random).actor),
            5 => {
                // Seldom without saying so, and long enough to be rescued.
                if self.random.below(64) == 0 {
                    thread::park_timeout(self.micros(6_000));
                } else {
                    let nap = self.micros(200);
                    cx.blocking(|| thread::park_timeout(nap));
                }
            }
            _ => self.try_tell(fuel, cx),
        }
    }

    fn stop_somebody(&mut self, cx: &mut Context<Self>) {
        let other = self.world.any(&mut self.random).actor;
        match self.random.below(4) {
            0 => cx.stop(),
            1 => cx.stop_gracefully(),
            2 => other.stop(),
            _ => other.stop_gracefully(),
        }
    }

    fn try_tell(&mut self, fuel: u64, cx: &Context<Self>) {
        let to = self.world.any(&mut self.random);
        let lane = to.lane(&mut self.random);
        let (fast, record) = self.world.fast(&to, lane, fuel);
        let outcome = to.actor.try_tell_lane(lane, fast);
        // A tell to oneself while stopping says `Ok`, and is shed.
        let is_certain = to.is_certain(lane) && to.actor.id() != cx.id();
        self.world.records.told(&record, outcome, is_certain);
    }

    /// Into the outbox, if the lane is full and lets its senders wait.
    fn tell(&mut self, fuel: u64) {
        let to = self.world.any(&mut self.random);
        let lane = to.lane(&mut self.random);
        let is_burst = self.random.below(6) == 0;
        for _ in 0..if is_burst { 30 } else { 1 } {
            self.tell_to(&to, lane, if is_burst { 0 } else { fuel });
        }
    }

    fn tell_to(&mut self, to: &Target, lane: usize, fuel: u64) {
        let records = self.world.records.clone();
        match self.random.below(3) {
            0 => {
                let (fast, record) = self.world.fast(to, lane, fuel);
                records.told(&record, to.actor.tell_lane(lane, fast), false);
            }
            1 => {
                let (slow, record) = self.world.slow(to, lane, fuel);
                records.told(&record, to.actor.tell_lane(lane, slow), false);
            }
            _ => {
                let (wide, record) = self.world.wide(to, lane, fuel);
                records.told(&record, to.actor.tell_lane(lane, wide), false);
            }
        }
    }

    fn tell_or_log(&mut self, fuel: u64, cx: &Context<Self>) {
        let to = self.world.any(&mut self.random);
        if to.actor.id() == cx.id() {
            return;
        }
        let (fast, record) = self.world.fast(&to, 0, fuel);
        if observed::is_stopped_within(|| to.actor.tell_or_log(fast)) {
            record.set_sent(Sent::Logged);
        }
    }

    fn tell_blocking(&mut self, fuel: u64) {
        let to = self.world.any_server(&mut self.random);
        let lane = to.lane(&mut self.random);
        let (fast, record) = self.world.fast(&to, lane, fuel);
        let outcome = to.actor.tell_blocking_lane(lane, fast);
        let records = &self.world.records;
        records.told(&record, outcome, to.is_certain(lane));
    }

    /// More than its lanes hold.
    fn fill_server(&mut self, fuel: u64) {
        (0..20).for_each(|_| self.tell_blocking(fuel.min(1)));
    }

    fn ask_server(&mut self, fuel: u64) {
        let to = self.world.any_server(&mut self.random);
        let lane = to.lane(&mut self.random);
        let (wide, record) = self.world.wide(&to, lane, fuel);
        let open = self.world.records.open_ask();
        let outcome = to.actor.ask(wide).lane(lane).wait();
        self.world.records.asked(&record, outcome);
        drop(open);
    }

    /// With a deadline: it may be waiting for us.
    fn ask_anybody(&mut self, fuel: u64) {
        let to = self.world.any(&mut self.random);
        let lane = to.lane(&mut self.random);
        let timeout = self.micros(2_000);
        let (slow, record) = self.world.slow(&to, lane, fuel);
        let open = self.world.records.open_ask();
        let outcome = to.actor.ask(slow).lane(lane).timeout(timeout).wait();
        self.world.records.asked(&record, outcome);
        drop(open);
    }

    fn send_all(&mut self, fuel: u64, cx: &mut Context<Self>) {
        let to = self.world.any(&mut self.random);
        let lane = to.lane(&mut self.random);
        let count = self.random.below(40);
        let panics_at = self.random.below(400);
        let (world, receiver) = (self.world.clone(), to.clone());
        let items = (0..count).map(move |item| {
            assert!(item != panics_at, "on purpose, in an iterator");
            world.fast(&receiver, lane, fuel.min(1)).0
        });
        // An iterator that comes back has made no message.
        drop(cx.send_all_lane(&to.actor, lane, items));
    }

    fn pause(&mut self, cx: &mut Context<Self>) {
        cx.pause_lane(self.random.below(self.lanes as u64) as usize);
        let resume = |me: &mut Self, cx: &mut Context<Self>| {
            (0..me.lanes).for_each(|lane| cx.resume_lane(lane));
        };
        if self.world.may_pause_for_ever && self.random.below(4) == 0 {
            return;
        }
        let delay = self.micros(500);
        if cx.wake_after(delay, resume).is_err() {
            resume(self, cx);
        }
    }

    fn set_timer(&mut self, fuel: u64, cx: &Context<Self>) {
        let delay = self.micros(2_000);
        let me = cx.id();
        let token = self.world.records.token(me, 0);
        let timer = match self.random.below(4) {
            0 => {
                // The template is never sent itself.
                token.record.set_sent(Sent::Unsent);
                let fuel = if self.random.below(8) == 0 {
                    u64::MAX
                } else {
                    0
                };
                cx.every(Duration::from_micros(300) + delay, Fast { fuel, token })
            }
            1 => cx.send_after(Duration::from_secs(3_600), Fast { fuel, token }),
            _ => cx.send_after(delay, Fast { fuel, token }),
        };
        self.timers.extend(timer.ok());
    }

    fn spawn(&mut self, cx: &Context<Self>) {
        if !self.world.may_spawn() {
            return;
        }
        let world = self.world.clone();
        let spawn = |options, factory| cx.spawn_with(options, factory);
        // Not while the system shuts down.
        if let Ok(child) = world.spawn(&mut self.random, Role::Server, true, spawn) {
            world.adopt(child);
        }
    }

    async fn act_async(&mut self, fuel: u64) {
        let records = self.world.records.clone();
        let fuel = fuel.saturating_sub(1);
        match self.random.below(6) {
            0 => {
                let to = self.world.any_server(&mut self.random);
                let (fast, record) = self.world.fast(&to, 0, fuel);
                let _open = records.open_ask();
                records.asked(&record, to.actor.ask(fast).await);
            }
            1 => {
                let to = self.world.any(&mut self.random);
                let timeout = self.micros(2_000);
                let (slow, record) = self.world.slow(&to, 0, fuel);
                let _open = records.open_ask();
                records.asked(&record, to.actor.ask(slow).timeout(timeout).await);
            }
            2 => {
                let to = self.world.any_server(&mut self.random);
                let (fast, record) = self.world.fast(&to, 0, fuel);
                let outcome = to.actor.send(fast).await;
                records.told(&record, outcome, to.is_certain(0));
            }
            3 => {
                let to = self.world.any(&mut self.random);
                let (fast, record) = self.world.fast(&to, 0, fuel);
                let ask = to.actor.ask(fast).into_future();
                if let Some(outcome) = poll_and_drop(ask, self.random.below(4)).await {
                    records.asked(&record, outcome);
                }
            }
            4 => {
                let to = self.world.any(&mut self.random);
                let (wide, record) = self.world.wide(&to, 0, fuel);
                match poll_and_drop(to.actor.send(wide), self.random.below(4)).await {
                    Some(outcome) => records.told(&record, outcome, to.is_certain(0)),
                    None => record.set_sent(Sent::Unsent),
                }
            }
            _ => {}
        }
        self.maybe_panic(2);
    }
}
