//! How does a dam keep the mailbox of a slow sink short during a burst?
//!
//! ```console
//! cargo run -p freeboard --example dam
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::{flow::ReservoirBound, prelude::*};

const WINDOW: u64 = 16;
const LINES: u64 = 10_000;

struct LogFile {
    written: u64,
    done: mpsc::Sender<u64>,
}

struct Line(u64);
struct Written;

impl Actor for LogFile {}

impl Handler<Line> for LogFile {
    type Reply = ();
    fn handle(&mut self, line: Line, _cx: &mut Context<Self>) {
        assert_eq!(line.0, self.written, "in order");
        self.written += 1;
        if self.written == LINES {
            let _ = self.done.send(self.written);
        }
    }
}

impl Handler<Written> for LogFile {
    type Reply = u64;
    fn handle(&mut self, _msg: Written, _cx: &mut Context<Self>) -> u64 {
        self.written // this question never waits behind more than `WINDOW` lines
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let (done, written) = mpsc::channel();
    let file = system.spawn(LogFile { written: 0, done });

    // At most 16 lines are queued for the file at any time. The dam keeps the others: 100,000 or 64 MiB at most.
    let reservoir = ReservoirBound {
        messages: 100_000,
        bytes: 64 << 20,
    };
    let dam = Dam::credit(WINDOW)
        .reservoir(reservoir)
        .in_front_of(file.recipient::<Line>())?;
    let gauge = dam.gauge();
    let dam = system.spawn(dam);

    for line in 0..LINES {
        dam.tell(Line(line))?;
    }
    println!("written so far: {}", file.ask(Written).wait()?);
    assert_eq!(written.recv()?, LINES);

    let high_water = file.snapshot().lanes[0].high_water;
    println!(
        "through the dam: {}; the most in it: {}; the most queued for the file: {high_water}",
        gauge.forwarded(),
        gauge.high_water(),
    );
    assert!(high_water <= WINDOW + 1, "the window, and the question");
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
