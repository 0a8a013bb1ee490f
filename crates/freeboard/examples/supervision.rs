//! What happens when a handler panics? The actor gets a new state and keeps its mailbox. Restarts have a limit.
//!
//! ```console
//! cargo run -p freeboard --example supervision
//! ```

use std::{error::Error, time::Duration};

use freeboard::{ExitReason, prelude::*};

#[derive(Default)]
struct Parser {
    parsed: u64,
}

struct Parse(&'static str);
struct Parsed;

impl Actor for Parser {
    fn started(&mut self, _cx: &mut Context<Self>) {
        println!("a parser starts");
    }
}

impl Handler<Parse> for Parser {
    type Reply = ();
    fn handle(&mut self, parse: Parse, _cx: &mut Context<Self>) {
        let _number: u64 = parse.0.parse().expect("a number"); // a bug: this is input from outside
        self.parsed += 1;
    }
}

impl Handler<Parsed> for Parser {
    type Reply = u64;
    fn handle(&mut self, _msg: Parsed, _cx: &mut Context<Self>) -> u64 {
        self.parsed
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder()
        .on_failure(|failure| println!("failed: {failure}"))
        .build()?;
    // At most one restart in a minute, after a millisecond. The default limit is 3 in 5 s.
    let supervision = Supervision::restart()
        .backoff(Duration::from_millis(1), Duration::from_millis(1))
        .limit(1, Duration::from_secs(60));
    let options = SpawnOptions::new().supervision(supervision);
    let parser = system.spawn_with(options, Parser::default)?;

    parser.tell(Parse("1"))?;
    parser.tell(Parse("one"))?; // panics
    parser.tell(Parse("2"))?;
    parser.tell(Parse("3"))?;
    let parsed = parser.ask(Parsed).wait()?;
    println!("the new parser has parsed {parsed} messages");
    assert_eq!(parsed, 2, "the state is new, the mailbox is not");

    parser.tell(Parse("two"))?; // panics, beyond the limit
    let reason = parser.join().reason;
    println!("the parser has terminated: {reason:?}");
    assert_eq!(reason, ExitReason::RestartLimit);

    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
