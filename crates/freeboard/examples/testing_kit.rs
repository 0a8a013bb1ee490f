//! How do I test actors in virtual time, and repeat an unlucky order of messages by its seed?
//!
//! ```console
//! cargo run -p freeboard --example testing_kit --features testing
//! ```

use std::{error::Error, time::Duration};

use freeboard::prelude::*;
use freeboard::testing::{Probe, TestSystem, each_seed};

const PERIOD: Duration = Duration::from_secs(600);

/// Polls a sensor every ten minutes. Reports when it has failed twice in a row.
struct Monitor {
    sensor: Recipient<Read>,
    alarm: Recipient<Alarm>,
    missed: u32,
}

#[derive(Clone)]
struct Poll;
#[derive(Debug)]
struct Read(ActorRef<Monitor>);
#[derive(Debug, PartialEq)]
struct Alarm;
struct Value;

impl Actor for Monitor {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.every(PERIOD, Poll).expect("a timer");
    }
}

impl Handler<Poll> for Monitor {
    type Reply = ();
    fn handle(&mut self, _msg: Poll, cx: &mut Context<Self>) {
        if self.missed == 2 {
            self.alarm.tell_or_log(Alarm);
        }
        self.missed += 1;
        self.sensor.tell_or_log(Read(cx.actor_ref()));
    }
}

impl Handler<Value> for Monitor {
    type Reply = ();
    fn handle(&mut self, _msg: Value, _cx: &mut Context<Self>) {
        self.missed = 0;
    }
}

fn an_alarm_follows_two_failures(system: &TestSystem) {
    let (sensor, alarms) = (Probe::<Read>::spawn(system), Probe::spawn(system));
    system.spawn(Monitor {
        sensor: sensor.recipient(),
        alarm: alarms.recipient(),
        missed: 0,
    });

    system.advance(PERIOD); // ten minutes that take no time
    sensor.expect_any().0.tell(Value).expect("alive");
    system.advance(2 * PERIOD);
    alarms.expect_none(Duration::ZERO);
    system.advance(PERIOD);
    alarms.expect_eq(Alarm);
    system.expect_no_dead_letters();
}

fn main() -> Result<(), Box<dyn Error>> {
    each_seed(0..100, an_alarm_follows_two_failures);
    println!("100 orders of messages, 4,000 virtual minutes");
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
