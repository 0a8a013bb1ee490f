//! How does an actor spawn children, and how does it learn that one has terminated?
//!
//! ```console
//! cargo run -p freeboard --example children_and_watch
//! ```

use freeboard::{SpawnError, prelude::*};
use std::{error::Error, sync::mpsc, time::Duration};

struct Worker {
    name: &'static str,
    log: mpsc::Sender<String>,
}

impl Actor for Worker {
    fn started(&mut self, _cx: &mut Context<Self>) {
        let _ = self.log.send(format!("{} started", self.name));
    }
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        let _ = self.log.send(format!("{} stopped", self.name));
    }
}

struct Foreman(mpsc::Sender<String>);
struct Hire(&'static str);

impl Actor for Foreman {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        let _ = self.0.send("the foreman stopped".to_owned());
    }
}

impl Handler<Hire> for Foreman {
    type Reply = Result<ActorRef<Worker>, SpawnError>;
    fn handle(&mut self, hire: Hire, cx: &mut Context<Self>) -> Self::Reply {
        let (name, log) = (hire.0, self.0.clone());
        let options = SpawnOptions::new().name(name);
        let worker = cx.spawn_once(options, Worker { name, log })?; // a child: it terminates before its parent
        cx.watch(&worker);
        Ok(worker)
    }
}

impl Handler<Terminated> for Foreman {
    type Reply = ();
    fn handle(&mut self, end: Terminated, _cx: &mut Context<Self>) {
        let name = end.name.unwrap_or_default();
        let _ = self
            .0
            .send(format!("the foreman saw {name}: {:?}", end.reason));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let (log, lines) = mpsc::channel();
    let foreman = system.spawn(Foreman(log));
    let expect = |line: &str| {
        assert_eq!(lines.recv().as_deref(), Ok(line));
        println!("{line}");
    };
    let ann = foreman.ask(Hire("ann")).wait()??;
    expect("ann started");
    foreman.ask(Hire("bob")).wait()??;
    expect("bob started");
    ann.stop();
    expect("ann stopped");
    expect("the foreman saw ann: Stopped");
    foreman.stop();
    expect("bob stopped");
    expect("the foreman stopped");
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
