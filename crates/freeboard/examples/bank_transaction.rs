//! How does an actor reply once another actor has replied to it? By a deferred reply, without a state machine.
//!
//! BankTransaction of the Savina suite. An account asks the receiving one, and handles other transfers meanwhile.
//!
//! ```console
//! cargo run -p freeboard --example bank_transaction
//! ```

use std::{error::Error, time::Duration};

use freeboard::prelude::*;

const START: i64 = 1_000;

struct Account(i64);
struct Credit(i64);
struct Transfer(i64, ActorRef<Account>);
struct Settled(i64, Result<i64, AskError<Credit>>, Deferred<bool>);

impl Actor for Account {}

impl DeferredHandler<Transfer> for Account {
    type Reply = bool;
    fn handle(&mut self, transfer: Transfer, reply: Deferred<bool>, cx: &mut Context<Self>) {
        let Transfer(amount, to) = transfer;
        if self.0 < amount {
            return reply.reply(false);
        }
        self.0 -= amount;
        let settled = move |credited| Settled(amount, credited, reply);
        if let Err(refused) = cx.ask(&to, Credit(amount), settled) {
            Handler::handle(self, refused.into_message(), cx); // not sent
        }
    }
}

impl Handler<Settled> for Account {
    type Reply = ();
    fn handle(&mut self, settled: Settled, _cx: &mut Context<Self>) {
        let Settled(amount, credited, reply) = settled;
        if credited.is_err() {
            self.0 += amount;
        }
        reply.reply(credited.is_ok());
    }
}

impl Handler<Credit> for Account {
    type Reply = i64;
    fn handle(&mut self, credit: Credit, _cx: &mut Context<Self>) -> i64 {
        self.0 += credit.0;
        self.0
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let accounts: Vec<_> = (0..100).map(|_| system.spawn(Account(START))).collect();
    let transfer = |number: usize| {
        let (from, to) = (&accounts[number % 100], &accounts[number * 7 % 100]);
        from.ask(Transfer(number as i64 % 97, to.clone())).wait()
    };
    let done = (0..10_000)
        .filter(|number| matches!(transfer(*number), Ok(true)))
        .count();
    let balances: Result<Vec<_>, _> = accounts.iter().map(|it| it.ask(Credit(0)).wait()).collect();
    println!("{done} transfers of 10,000");
    assert_eq!(balances?.iter().sum::<i64>(), 100 * START);
    assert!(done > 0 && system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
