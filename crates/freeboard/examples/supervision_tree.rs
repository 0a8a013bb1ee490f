//! How do I restart actors that depend on each other together? A tree of supervisors, declared in one expression.
//!
//! ```console
//! cargo run -p freeboard --example supervision_tree
//! ```

use std::{error::Error, time::Duration};

use freeboard::{ChildRef, ChildSpec, Restart, Supervisor, prelude::*};

/// Holds what the importers have written. If it fails, they start anew.
#[derive(Default)]
struct Store(Vec<String>);
struct Importer(ChildRef<Store>);

struct Write(&'static str);
struct Import(&'static str);

impl Actor for Store {}

impl Actor for Importer {}

impl Handler<Write> for Store {
    type Reply = usize;
    fn handle(&mut self, msg: Write, cx: &mut Context<Self>) -> usize {
        if msg.0.is_empty() {
            cx.fail("an empty record");
        }
        self.0.push(msg.0.to_owned());
        self.0.len()
    }
}

impl Handler<Import> for Importer {
    type Reply = ();
    fn handle(&mut self, msg: Import, _cx: &mut Context<Self>) {
        if let Some(store) = self.0.get() {
            store.tell_or_log(Write(msg.0));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let (store, importer) = (ChildRef::<Store>::new(), ChildRef::<Importer>::new());
    let (to, known) = (store.clone(), importer.clone());
    let tree = system.spawn(
        Supervisor::rest_for_one()
            .intensity(5, Duration::from_secs(60))
            .child(ChildSpec::new("store", Store::default).reference(&store))
            .child(ChildSpec::new("importers", move || {
                let to = to.clone();
                let first = ChildSpec::new("first", move || Importer(to.clone()));
                let first = first.restart(Restart::Transient).reference(&known);
                Supervisor::one_for_one().child(first)
            })),
    );
    tree.wait_started().wait()?; // all children have started, in order
    let (first, old) = (
        store.get().expect("it runs"),
        importer.get().expect("it runs"),
    );
    assert_eq!(first.ask(Write("a record")).wait()?, 1);
    old.tell(Import(""))?; // fails the store, so the importers are restarted, too
    old.join();
    while importer.get().is_none() {
        std::thread::yield_now();
    }
    let second = store.get().expect("it started before the importers");
    assert_eq!(second.ask(Write("a record")).wait()?, 1);
    assert_eq!(tree.count_children().wait()?.active, 2);
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
