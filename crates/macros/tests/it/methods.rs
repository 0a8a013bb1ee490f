//! Handlers of each kind of method, and the ways to call them.

use std::{
    error::Error,
    future::{Ready, poll_fn, ready},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use freeboard::{Deferred, SpawnOptions, prelude::*};

use crate::spawn;

#[derive(Clone, Default)]
struct Counter {
    total: u64,
    is_terminated: bool,
}

impl Actor for Counter {}

#[handlers]
impl Counter {
    const STEP: u64 = 1;

    fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, n: u64) -> u64 {
        self.total += n;
        self.total
    }

    fn total(&self) -> u64 {
        self.total
    }

    fn step(&mut self) {
        self.add(Self::STEP);
    }

    /// The context at each position, under any name, with two names that the macro uses itself.
    fn add_both(&mut self, mut msg: u64, context: &mut Context<Self>, cx: u64) -> bool {
        msg += cx;
        self.add(msg);
        context.actor_ref().is_alive()
    }

    fn alias(
        &mut self,
        cx: &mut Context<Counter>,
        other: Option<ActorRef<Self>>,
    ) -> ActorRef<Self> {
        other.unwrap_or_else(|| cx.actor_ref())
    }

    async fn add_later(&mut self, n: Ready<u64>) -> Result<u64, &'static str> {
        let n = n.await;
        if n == 0 {
            Err("nothing")
        } else {
            Ok(self.add(n))
        }
    }

    async fn add_much_later(&mut self, cx: &mut Context<Self>, r#loop: (u64, [u64; 2])) -> u64 {
        let (first, rest) = ready(r#loop).await;
        self.add_both(first, cx, rest.iter().sum());
        self.total
    }

    fn r#match(&self, condition: Box<dyn Fn(&u64) -> bool + Send>) -> bool {
        condition(&self.total)
    }

    /// `ActorRef` has a method of this name.
    #[handler(call = terminate)]
    fn stop(&mut self, cx: &mut Context<Self>) {
        self.is_terminated = true;
        cx.stop();
    }

    #[handler(skip)]
    fn borrows(&mut self, text: &str) -> usize {
        self.total.to_string().len() + text.len()
    }
}

struct Length(String);

/// A handler by hand, beside the block.
impl Handler<Length> for Counter {
    type Reply = usize;
    fn handle(&mut self, msg: Length, _cx: &mut Context<Self>) -> usize {
        self.borrows(&msg.0)
    }
}

/// A second block needs names of its own.
#[handlers(prefix = CounterAdmin)]
impl Counter {
    fn reset(&mut self) {
        self.total = 0;
    }
}

#[test]
fn each_method_is_a_call_and_a_message() -> Result<(), Box<dyn Error>> {
    let (_system, counter) = spawn(Counter::new());
    assert_eq!(counter.add(2).wait()?, 2);
    counter.tell(CounterAdd { n: 3 })?;
    counter.step().tell()?;
    assert_eq!(counter.total().wait()?, 6);
    assert_eq!(counter.ask(CounterTotal).wait()?, 6);
    assert!(counter.add_both(1, 2).wait()?);
    assert_eq!(counter.alias(None).wait()?, counter);
    assert!(counter.r#match(Box::new(|total| *total == 9)).wait()?);
    assert_eq!(counter.ask(Length("abc".to_owned())).wait()?, 4);
    counter.reset().wait()?;
    counter.tell(CounterAdminReset)?;
    assert_eq!(counter.total().wait()?, 0);
    counter.terminate().wait()?;
    counter.join();
    Ok(())
}

#[test]
fn async_methods_are_async_handlers() -> Result<(), Box<dyn Error>> {
    let (_system, counter) = spawn(Counter::new());
    assert_eq!(counter.add_later(ready(2)).wait()?, Ok(2));
    assert_eq!(counter.add_later(ready(0)).wait()?, Err("nothing"));
    let asked = async {
        counter
            .add_much_later((1, [2, 3]))
            .timeout(Duration::from_secs(60))
            .await
    };
    assert_eq!(pollster::block_on(asked)?, 8);
    Ok(())
}

/// Keeps the newest price of each symbol.
#[derive(Default)]
struct Feed(Vec<(u32, u64)>);

impl Actor for Feed {}

const CONTROL: usize = 0;

#[handlers]
impl Feed {
    #[handler(lane = CONTROL + 1, coalesce = u64::from(*symbol), derive(Clone, Debug, PartialEq))]
    fn price(&mut self, symbol: u32, price: u64) {
        self.0.push((symbol, price));
    }

    #[handler(lane = CONTROL)]
    fn hold(&mut self, until: std::sync::mpsc::Receiver<()>) {
        until.recv().ok();
    }

    #[handler(lane = 1)]
    fn prices(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.0)
    }

    #[handler(lane = 7)]
    fn nowhere(&mut self) {}
}

#[test]
fn options_choose_lane_key_and_derives() -> Result<(), Box<dyn Error>> {
    let system = System::builder().workers(1).build()?;
    let prices = LaneConfig::bounded(8).overload(Overload::Coalesce);
    let options = SpawnOptions::new().lanes([LaneConfig::bounded(8), prices]);
    let feed = system.spawn_with(options, Feed::default)?;
    let (release, until) = std::sync::mpsc::channel();
    feed.tell(FeedHold { until })?;
    for (symbol, price) in [(1, 10), (2, 20), (1, 11)] {
        let message = FeedPrice { symbol, price };
        assert_eq!(message.clone(), message);
        feed.tell_lane(1, message)?;
    }
    drop(release);
    assert_eq!(feed.prices().wait()?, [(1, 11), (2, 20)]);
    assert!(matches!(
        feed.nowhere().wait(),
        Err(AskError::NoLane(FeedNowhere))
    ));
    Ok(())
}

/// Fails on its own errors, by supervision that stops it.
#[derive(Clone)]
struct Strict;

impl Actor for Strict {}

#[handlers]
impl Strict {
    #[handler(fail_on_err)]
    fn even(&mut self, n: u8) -> Result<u8, String> {
        if n.is_multiple_of(2) {
            Ok(n)
        } else {
            Err(format!("{n} is odd"))
        }
    }

    #[handler(fail_on_err)]
    async fn even_later(&mut self, cx: &mut Context<Self>, n: Ready<u8>) -> Result<u8, String> {
        let is_alive = cx.actor_ref().is_alive();
        assert!(is_alive);
        self.even(n.await)
    }
}

#[test]
fn an_error_fails_the_actor_and_is_the_reply() -> Result<(), Box<dyn Error>> {
    let (_system, strict) = spawn(Strict);
    assert_eq!(strict.even(2).wait()?, Ok(2));
    assert_eq!(strict.even(3).wait()?, Err("3 is odd".to_owned()));
    assert_eq!(strict.join().reason, ExitReason::Failed);

    let (_system, strict) = spawn(Strict);
    assert_eq!(strict.even_later(ready(2)).wait()?, Ok(2));
    strict.even_later(ready(1)).tell()?;
    assert_eq!(strict.join().reason, ExitReason::Failed);
    Ok(())
}

/// Keeps askers until there is a value.
#[derive(Default)]
struct Promise(Vec<Deferred<u64>>);

impl Actor for Promise {}

#[handlers]
impl Promise {
    /// Gives the asker to another promise.
    fn get_from(&mut self, other: ActorRef<Self>, reply: Deferred<u64>, cx: &mut Context<Self>) {
        assert!(other != cx.actor_ref());
        other.keep(reply).tell().expect("the other one lives");
    }

    fn keep(&mut self, #[field] asker: Deferred<u64>) {
        self.0.push(asker);
    }

    fn resolve(&mut self, value: u64) {
        for asker in self.0.drain(..) {
            asker.reply(value);
        }
    }
}

#[test]
fn a_deferred_is_the_port_of_the_reply() -> Result<(), Box<dyn Error>> {
    let system = System::builder().workers(1).build()?;
    let [promise, other] = [(); 2].map(|()| system.spawn(Promise::default()));
    promise.get_from(other.clone()).tell()?;
    let mut asked = promise.get_from(other.clone()).into_future();
    let mut asked = Pin::new(&mut asked);
    // The first poll sends it.
    let first = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context)));
    assert!(pollster::block_on(first).is_pending());
    // A question behind it: when this is answered, the other promise has the asker.
    promise.resolve(0).wait()?;
    other.resolve(7).wait()?;
    assert_eq!(pollster::block_on(asked)?, 7);
    Ok(())
}
