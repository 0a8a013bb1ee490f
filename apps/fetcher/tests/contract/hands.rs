//! A consumer whose deliveries a test takes one by one.

use std::{
    num::NonZeroU16,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use freeboard_fetcher::broker::{Broker, Consumer, Delivery, Inbox, Queue};

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A consumer, and what it brought.
pub(crate) struct Hands {
    // First, so that what is left in the channel is not put off but goes back.
    pub(crate) consumer: Consumer,
    deliveries: Receiver<Delivery>,
}

impl Hands {
    /// Begins to consume.
    pub(crate) fn new(broker: &dyn Broker, queue: Queue, prefetch: u16) -> Self {
        let (sender, deliveries) = mpsc::channel();
        let inbox = Inbox::call(move |delivery| sender.send(delivery).map_err(|refused| refused.0));
        let prefetch = NonZeroU16::new(prefetch).expect("not zero");
        Self {
            consumer: broker.consume(queue, prefetch, inbox).expect("a consumer"),
            deliveries,
        }
    }

    /// The next delivery.
    pub(crate) fn next(&self) -> Delivery {
        self.deliveries.recv_timeout(LONG).expect("a delivery")
    }

    /// Checks that none has come.
    pub(crate) fn assert_empty(&self) {
        assert!(self.deliveries.try_recv().is_err());
    }
}

/// A delivery's body.
pub(crate) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.body().to_vec()).expect("text")
}

/// Waits for a condition.
pub(crate) fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG, "it does not come to that");
        std::thread::yield_now();
    }
}

/// What `--nocapture` shows.
#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
