//! How do I write an actor, send it messages, and ask it for a value?
//!
//! ```console
//! cargo run -p freeboard --example counter
//! ```

use std::{error::Error, time::Duration};

use freeboard::prelude::*;

struct Counter {
    total: u64,
}

struct Add(u64);
struct Total;

impl Actor for Counter {}

impl Handler<Add> for Counter {
    type Reply = ();
    fn handle(&mut self, add: Add, _cx: &mut Context<Self>) {
        self.total += add.0;
    }
}

impl Handler<Total> for Counter {
    type Reply = u64;
    fn handle(&mut self, _msg: Total, _cx: &mut Context<Self>) -> u64 {
        self.total
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let counter = system.spawn(Counter { total: 0 });

    for number in 1..=100 {
        counter.tell(Add(number))?; // returns as soon as the mailbox has accepted the message
    }

    // Messages of one sender to one lane are handled in the order of sending.
    let total = counter.ask(Total).wait()?; // or `.await`, in any async runtime
    println!("the sum of 1 to 100 is {total}");
    assert_eq!(total, 5_050);

    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
