//! What goes wrong in a life: calls that block, runs that take long, panics, and a hot key.

use std::{panic, thread, time::Duration};

use anyhow::Result;
use freeboard::{
    Actor, Context, Group, GroupOptions, Handler, Router, SpawnOptions, Supervision, System,
    flow::random,
};

use crate::spin::spin_us;

/// Between two turns.
const TICK: Duration = Duration::from_millis(250);

/// Turns between two mishaps of each kind; prime to each other, so that they seldom come together.
const BLOCKING_EVERY: u64 = 19;
const ANNOUNCED_EVERY: u64 = 13;
const LONG_EVERY: u64 = 29;
const PANIC_EVERY: u64 = 61;

/// How long a call blocks, or a run computes.
const SHORT: Duration = Duration::from_millis(40);
const LONG_US: u64 = 30_000;

/// Messages that the shards get in a turn; every second one has the hot key.
const MESSAGES: u64 = 200;

/// What the panics say.
const MISHAP: &str = "a mishap, for show";

struct Importer {
    turn: u64,
}

#[derive(Clone)]
struct Turn;

impl Actor for Importer {
    fn started(&mut self, cx: &mut Context<Self>) {
        // Without a timer's thread nothing goes wrong.
        let _ = cx.every(TICK, Turn);
    }
}

impl Handler<Turn> for Importer {
    type Reply = ();

    fn handle(&mut self, _: Turn, cx: &mut Context<Self>) {
        self.turn += 1;
        if self.turn.is_multiple_of(ANNOUNCED_EVERY) {
            cx.blocking(|| thread::sleep(SHORT));
        }
        if self.turn.is_multiple_of(BLOCKING_EVERY) {
            thread::sleep(SHORT);
        }
        if self.turn.is_multiple_of(LONG_EVERY) {
            spin_us(LONG_US);
        }
        assert!(!self.turn.is_multiple_of(PANIC_EVERY), "{MISHAP}");
    }
}

struct Shard;

struct Order;

impl Actor for Shard {}

impl Handler<Order> for Shard {
    type Reply = ();

    fn handle(&mut self, _: Order, _: &mut Context<Self>) {
        spin_us(2);
    }
}

struct Orders {
    shards: Group<Shard>,
    seed: u64,
    turn: u64,
}

impl Actor for Orders {
    fn started(&mut self, cx: &mut Context<Self>) {
        // Without a timer's thread nobody orders.
        let _ = cx.every(TICK, Turn);
    }
}

impl Handler<Turn> for Orders {
    type Reply = ();

    fn handle(&mut self, _: Turn, _: &mut Context<Self>) {
        for message in 0..MESSAGES {
            self.turn += 1;
            let key = match message % 2 {
                0 => 0,
                _ => random::number(self.seed, self.turn) % 1_000,
            };
            // The shards end with the system.
            let _ = self.shards.route(&key.to_le_bytes()).tell(Order);
        }
    }
}

/// Keeps the panics that are for show off the terminal.
fn hush() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |told| {
        let said = told.payload().downcast_ref::<String>();
        if said.is_none_or(|text| text != MISHAP) {
            others(told);
        }
    }));
}

/// Spawns all of them.
pub(super) fn start(system: &System, seed: u64) -> Result<()> {
    hush();
    let options = SpawnOptions::new()
        .name("importer")
        .supervision(Supervision::restart());
    system.spawn_with(options, || Importer { turn: 0 })?;
    let options = GroupOptions::new(4)
        .name("shards")
        .router(Router::HashOfKey);
    let shards = system.spawn_group(options, |_| Shard)?;
    let orders = Orders {
        shards,
        seed,
        turn: 0,
    };
    system.spawn_once(SpawnOptions::new().name("orders"), orders)?;
    Ok(())
}
