//! How does an actor send itself a message later or periodically, and how does it cancel that?
//!
//! ```console
//! cargo run -p freeboard --example timers
//! ```

use std::{
    error::Error,
    sync::mpsc,
    time::{Duration, Instant},
};

use freeboard::{TimerKey, prelude::*};

const PERIOD: Duration = Duration::from_millis(10);

struct Heartbeat {
    beats: u32,
    timer: Option<TimerKey>,
    done: mpsc::Sender<u32>,
}

#[derive(Clone)]
struct Beat;
struct Finish;

impl Actor for Heartbeat {
    fn started(&mut self, cx: &mut Context<Self>) {
        // The timer is cancelled when the actor terminates.
        self.timer = cx.every(PERIOD, Beat).ok();
    }
}

impl Handler<Beat> for Heartbeat {
    type Reply = ();
    fn handle(&mut self, _msg: Beat, cx: &mut Context<Self>) {
        self.beats += 1;
        println!("beat {}", self.beats);
        if self.beats == 3 {
            let was_set = self.timer.take().is_some_and(|timer| cx.cancel(timer));
            assert!(was_set, "no further beat will come");
            cx.send_after(2 * PERIOD, Finish).expect("a timer");
        }
    }
}

impl Handler<Finish> for Heartbeat {
    type Reply = ();
    fn handle(&mut self, _msg: Finish, cx: &mut Context<Self>) {
        let _ = self.done.send(self.beats);
        cx.stop();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let system = System::builder().build()?;
    let (done, beats) = mpsc::channel();
    system.spawn(Heartbeat {
        beats: 0,
        timer: None,
        done,
    });

    // A full lane sheds a timer's message: a slow actor may miss a beat, but never gets one too early.
    let beats = beats.recv()?;
    println!("{beats} beats in {:?}", begin.elapsed());
    assert!(beats >= 3);
    assert!(begin.elapsed() >= 5 * PERIOD);
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
