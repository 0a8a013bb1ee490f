//! How do I send to an actor in another process?
//!
//! Start a server with `nats-server`, then run this in two terminals, first with `counter` and then with `client`. Without an
//! argument, one process is both.
//!
//! ```console
//! cargo run -p freeboard --example remote --features remote -- counter
//! ```

use std::{env, error::Error, time::Duration};

use freeboard::{
    prelude::*,
    remote::{Node, NodeOptions, RemoteMessage},
};
use serde::{Deserialize, Serialize};

/// Adds a number; the reply is the sum.
#[derive(Serialize, Deserialize, RemoteMessage)]
#[remote(name = "counter.add", version = 1, reply = u64)]
struct Add(u64);

struct Counter(u64);

impl Actor for Counter {}

impl Handler<Add> for Counter {
    type Reply = u64;

    fn handle(&mut self, add: Add, _: &mut Context<Self>) -> u64 {
        self.0 += add.0;
        self.0
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let role = env::args().nth(1).unwrap_or_else(|| "both".to_owned());
    run(&url, &role)
}

pub(crate) fn run(url: &str, role: &str) -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let options = NodeOptions::new(url).name(format!("{role}-{}", std::process::id()));
    let node = Node::join(&system, options)?;
    if role != "client" {
        node.publish::<Add, _>("counter", &system.spawn(Counter(0)))?;
    }
    if role != "counter" {
        let counter = node.remote::<Add>("counter")?;
        // At most 1,024 wait here for the receiver's credit; then this thread waits.
        for _ in 0..100_000 {
            counter.tell(Add(1))?;
        }
        let sum = counter.ask(Add(0)).timeout(Duration::from_secs(5)).wait()?;
        println!("the sum is {sum}");
        assert_eq!(sum % 100_000, 0, "each was handled once");
    } else {
        println!("press Enter to end");
        std::io::stdin().read_line(&mut String::new())?;
    }
    // What was accepted is sent, and what has arrived is answered.
    node.leave(Duration::from_secs(5));
    Ok(())
}
