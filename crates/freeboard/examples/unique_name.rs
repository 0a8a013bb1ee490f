//! How does an actor exist once in all processes, and keep its state when its process ends?
//!
//! Start a server with `nats-server --jetstream`, then run this. Two nodes of this process stand for two machines, and a folder
//! for what both can reach: it could be a bucket on S3.
//!
//! ```console
//! cargo run -p freeboard --example unique_name --features remote,archive
//! ```

use std::{env, error::Error, time::Duration};

use freeboard::{
    prelude::*,
    remote::{Fence, Node, NodeOptions, RemoteDirectory, RemoteDirectoryOptions, RemoteMessage},
    stream::archive::{ArchiveOptions, FencedState, FencedStore},
};
use serde::{Deserialize, Serialize};

/// Gives the next number.
#[derive(Serialize, Deserialize, RemoteMessage)]
#[remote(name = "numbers.next", reply = u64)]
struct Next;

struct Numbers(u64, FencedState);

impl Actor for Numbers {}

impl Handler<Next> for Numbers {
    type Reply = u64;

    fn handle(&mut self, _: Next, cx: &mut Context<Self>) -> u64 {
        self.0 += 1;
        // It is durable before the reply. An older activation that still runs somewhere panics here.
        let put = cx.blocking(|| self.1.put(&self.0.to_be_bytes()));
        put.expect("this epoch is the newest");
        self.0
    }
}

type Names = RemoteDirectory<String, Numbers>;

fn join(url: &str, name: &str, store: &FencedStore) -> Result<(Node, Names), Box<dyn Error>> {
    let system = System::builder().build()?;
    let node = Node::join(&system, NodeOptions::new(url).name(name))?;
    let options = RemoteDirectoryOptions::new("numbers").partitions(1);
    let store = store.clone();
    // Opening fences the older epochs, and reads what they have written.
    let load = move |name: &String, fence: &Fence| {
        let (state, found) = store.open(name, fence.epoch()).expect("a newer epoch");
        let found = found.and_then(|it| it.try_into().ok());
        Numbers(found.map_or(0, u64::from_be_bytes), state)
    };
    let names = node.directory(options.accept::<Next>(), load)?;
    Ok((node, names))
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned()))
}

pub(crate) fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let states =
        ArchiveOptions::new().open_states(&format!("file://{}", folder.path().display()))?;
    let store = FencedStore::new(states, "numbers");
    let (a, first) = join(url, "a", &store)?;
    let (b, second) = join(url, "b", &store)?;
    let (name, time) = ("invoices".to_owned(), Duration::from_secs(20));
    assert_eq!(first.ask(&name, Next).timeout(time).wait()?, 1);
    assert_eq!(second.ask(&name, Next).timeout(time).wait()?, 2, "the same");
    // The name moves to the other node, whichever has it, and goes on.
    a.leave(time);
    assert_eq!(second.ask(&name, Next).timeout(time).wait()?, 3);
    println!("invoice 3 comes from node {}", b.id().name);
    b.leave(time);
    Ok(())
}
