//! What happens to other actors when a handler blocks its thread? Another thread runs them.
//!
//! ```console
//! cargo run -p freeboard --example blocking_call
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::prelude::*;

struct Library;

/// Blocks in `cx.blocking`: another thread takes over at once.
struct Declared(mpsc::Receiver<()>);
/// Blocks without `cx.blocking`: the monitor detects it within about three milliseconds.
struct Undeclared(mpsc::Receiver<()>);

impl Actor for Library {}

impl Handler<Declared> for Library {
    type Reply = ();
    fn handle(&mut self, call: Declared, cx: &mut Context<Self>) {
        let _ = cx.blocking(|| call.0.recv());
    }
}

impl Handler<Undeclared> for Library {
    type Reply = ();
    fn handle(&mut self, call: Undeclared, _cx: &mut Context<Self>) {
        let _ = call.0.recv();
    }
}

struct Greeter;
struct Greet;

impl Actor for Greeter {}

impl Handler<Greet> for Greeter {
    type Reply = &'static str;
    fn handle(&mut self, _msg: Greet, _cx: &mut Context<Self>) -> &'static str {
        "hello"
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // One worker: without a replacement, a blocked thread would stop all actors.
    let system = System::builder().workers(1).build()?;
    let greeter = system.spawn(Greeter);

    let (declared_end, declared) = mpsc::channel();
    let (undeclared_end, undeclared) = mpsc::channel();
    system.spawn(Library).tell(Declared(declared))?;
    assert_eq!(greeter.ask(Greet).wait()?, "hello");
    system.spawn(Library).tell(Undeclared(undeclared))?;
    assert_eq!(greeter.ask(Greet).wait()?, "hello");

    let scheduler = system.scheduler_snapshot();
    println!(
        "two calls block, and one worker greets: {} declared, {} found by the monitor, {} threads",
        scheduler.blocking_calls, scheduler.rescues, scheduler.threads
    );
    drop((declared_end, undeclared_end));
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
