//! Savina's BankTransaction on Freeboard. An account gets the other one's reply as a message and answers the teller
//! then, so it handles other messages meanwhile.

use std::time::Instant;

use anyhow::Result;
use freeboard::Deferred;
use freeboard::prelude::*;

use crate::bank::{self, ACCOUNTS_COUNT, Book};
use crate::finish;
use crate::outcome::Outcome;

use super::freeboard::{ALIVE, deep, start};

struct Account {
    balance: u64,
}

impl Actor for Account {}

#[handlers]
impl Account {
    fn debit(&mut self, amount: u64) -> u64 {
        self.balance = self.balance.wrapping_add(amount);
        amount
    }

    fn credit(
        &mut self,
        teller: Deferred<u64>,
        amount: u64,
        target: ActorRef<Self>,
        cx: &mut Context<Self>,
    ) {
        self.balance = self.balance.wrapping_sub(amount);
        let debited = |reply: Result<u64, _>| AccountDebited {
            teller,
            amount: reply.expect(ALIVE),
        };
        cx.ask_with(target.debit(amount), debited).expect(ALIVE);
    }

    fn debited(&mut self, #[field] teller: Deferred<u64>, amount: u64) {
        teller.reply(amount);
    }
}

struct Teller {
    accounts: Vec<ActorRef<Account>>,
    book: Book,
}

impl Actor for Teller {}

#[handlers]
impl Teller {
    fn begin_round(&mut self, cx: &mut Context<Self>) {
        self.book.begin_round(|transfer| {
            let target = self.accounts[transfer.target].clone();
            let credit = self.accounts[transfer.source].credit(transfer.amount, target);
            let done = |reply: Result<u64, _>| TellerDone {
                amount: reply.expect(ALIVE),
            };
            cx.ask_with(credit, done).expect(ALIVE);
        });
    }

    fn done(&mut self, amount: u64, cx: &mut Context<Self>) {
        if self.book.is_round_done(amount) {
            self.begin_round(cx);
        }
    }
}

pub fn run(count: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let account = |_| system.spawn_once(deep(), Account { balance: 0 });
    let accounts = (0..ACCOUNTS_COUNT).map(account).collect::<Result<_, _>>()?;
    let book = Book::new(count, finish);
    let options = deep().pending_asks(bank::ROUND as usize);
    let teller = system.spawn_once(options, Teller { accounts, book })?;
    let started = Instant::now();
    teller.begin_round().tell()?;
    let ended = waiting.wait(count, bank::sum_of(count))?;
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds))
}
