//! How does an actor fail without a panic, at its start and later? An error goes to its supervision.
//!
//! ```console
//! cargo run -p freeboard --example fallible_start
//! ```

use std::{
    error::Error,
    io,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use freeboard::{BoxError, StartError, prelude::*};

/// A server that refuses the first connection.
fn connect() -> io::Result<u32> {
    static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
    match ATTEMPTS.fetch_add(1, Ordering::Relaxed) {
        0 => Err(io::ErrorKind::ConnectionRefused.into()),
        number => Ok(number),
    }
}

#[derive(Default)]
struct Client {
    connection: u32,
}

struct Query(&'static str);

impl Actor for Client {
    fn try_started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.connection = connect()?;
        Ok(())
    }
}

impl Handler<Query> for Client {
    type Reply = Result<usize, &'static str>;
    fn handle(&mut self, query: Query, cx: &mut Context<Self>) -> Self::Reply {
        let rows = match query.0 {
            "" => Err("the connection is broken"),
            text => Ok(text.len()),
        };
        // The caller gets the error as the reply. This actor restarts, and connects again.
        cx.fail_on_err(rows)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder()
        .on_failure(|failure| println!("{failure}"))
        .build()?;
    let backoff = Duration::from_millis(100);
    let supervision = Supervision::restart().backoff(backoff, backoff);
    let options = SpawnOptions::new().supervision(supervision);
    // A factory that may fail itself: `try_spawn_with`.
    let client = system.spawn_with(options, Client::default)?;
    // Without the wait, the actor would still start, or be restarted after the error.
    while let Err(error) = client.wait_started().wait() {
        assert!(matches!(error, StartError::Failed(_)));
        println!("{error}; its supervision tries again");
    }
    assert_eq!(client.ask(Query("select")).wait()?, Ok(6));
    assert!(client.ask(Query("")).wait()?.is_err());
    assert_eq!(client.ask(Query("again")).wait()?, Ok(5));
    assert_eq!(client.snapshot().restarts, 2);
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
