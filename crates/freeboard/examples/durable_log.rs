//! How does an actor's state survive a crash? Each change is a record of a durable log.
//!
//! ```console
//! cargo run -p freeboard --features stream --example durable_log
//! ```

use std::{error::Error, path::Path, time::Duration};

use freeboard::{
    prelude::*,
    stream::{AppendError, ReaderOptions, StreamOptions, StreamWriter, Ticket},
};

struct Account {
    balance: i64,
    log: StreamWriter,
}

struct Book(i64);
struct Balance;

impl Account {
    /// Replays the log. A crash leaves at most a torn end, which was never acknowledged.
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let log = StreamOptions::new().open(path)?;
        let mut balance = 0;
        for record in ReaderOptions::new().open(path)? {
            balance += i64::from_le_bytes(record?.payload.as_slice().try_into()?);
        }
        Ok(Self { balance, log })
    }
}

impl Actor for Account {}

impl Handler<Book> for Account {
    type Reply = Result<Ticket, AppendError>;
    fn handle(&mut self, book: Book, _cx: &mut Context<Self>) -> Self::Reply {
        // The actor does not wait for the disk. The caller waits for the ticket; many records share one write.
        let ticket = self.log.append(&book.0.to_le_bytes())?;
        self.balance += book.0;
        Ok(ticket)
    }
}

impl Handler<Balance> for Account {
    type Reply = i64;
    fn handle(&mut self, _msg: Balance, _cx: &mut Context<Self>) -> i64 {
        self.balance
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    for run in 1..=3 {
        let system = System::builder().build()?;
        let account = system.spawn(Account::open(directory.path())?);
        let before = account.ask(Balance).wait()?;
        assert_eq!(before, 100 * (run - 1), "everything that was acknowledged");

        let mut tickets = Vec::new();
        for _ in 0..100 {
            tickets.push(account.ask(Book(1)).wait()??);
        }
        let mut sequence = 0;
        for ticket in tickets {
            sequence = ticket.wait()?; // or `.await`; from here on the record survives a crash
        }
        println!("run {run}: {before} from the log, then up to record {sequence}");
        assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    }
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
