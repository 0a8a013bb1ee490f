//! How do I write a state machine, with a time limit for a state?
//!
//! ```console
//! cargo run -p freeboard --example state_machine
//! ```

use std::{error::Error, thread, time::Duration};

use freeboard::{TimerKey, prelude::*};

/// The states; each has only the data that it needs. The compiler checks that every state is handled.
enum Door {
    Closed,
    Open { closes: TimerKey },
    Locked { code: u32 },
}

#[derive(Debug)]
enum Event {
    Push,
    Lock(u32),
    Unlock(u32),
    /// An open door closes by itself.
    TimeIsUp,
}

impl Actor for Door {}

impl Handler<Event> for Door {
    /// The name of the state afterwards; an event that does not fit the state comes back.
    type Reply = Result<&'static str, Event>;

    fn handle(&mut self, event: Event, cx: &mut Context<Self>) -> Self::Reply {
        *self = match (&*self, event) {
            (Self::Closed, Event::Push) => {
                let after = Duration::from_millis(20);
                match cx.send_after(after, Event::TimeIsUp) {
                    Ok(closes) => Self::Open { closes },
                    Err(_) => return Err(Event::Push),
                }
            }
            (Self::Open { closes }, Event::Push) => {
                cx.cancel(*closes);
                Self::Closed
            }
            (Self::Open { .. }, Event::TimeIsUp) => Self::Closed,
            (Self::Closed, Event::Lock(code)) => Self::Locked { code },
            (Self::Locked { code }, Event::Unlock(given)) if given == *code => Self::Closed,
            (_, refused) => return Err(refused),
        };
        Ok(match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::Locked { .. } => "locked",
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let door = system.spawn(Door::Closed);
    assert!(matches!(door.ask(Event::Push).wait()?, Ok("open")));
    // It cannot be locked until it has closed by itself.
    while let Err(refused) = door.ask(Event::Lock(7)).wait()? {
        println!("refused: {refused:?}");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(door.ask(Event::Unlock(6)).wait()?.is_err());
    assert!(matches!(door.ask(Event::Unlock(7)).wait()?, Ok("closed")));
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
