//! Savina's BankTransaction on kameo. An account awaits the reply in its handler, as in Savina.

use std::time::Instant;

use anyhow::Result;
use kameo::prelude::*;

use crate::bank::{self, ACCOUNTS_COUNT, Book};
use crate::finish;
use crate::outcome::Outcome;

use super::kameo::{ALIVE, spawn_actor};
use super::tokio_runtime::{run_on_worker, start};

#[derive(Actor)]
struct Account {
    balance: u64,
}

struct Debit(u64);

impl Message<Debit> for Account {
    type Reply = u64;

    async fn handle(&mut self, Debit(amount): Debit, _: &mut Context<Self, u64>) -> u64 {
        self.balance = self.balance.wrapping_add(amount);
        amount
    }
}

struct Credit {
    amount: u64,
    target: ActorRef<Account>,
    teller: ActorRef<Teller>,
}

impl Message<Credit> for Account {
    type Reply = ();

    async fn handle(&mut self, credit: Credit, _: &mut Context<Self, ()>) {
        self.balance = self.balance.wrapping_sub(credit.amount);
        let amount = credit.target.ask(Debit(credit.amount)).await.expect(ALIVE);
        credit.teller.tell(Done(amount)).await.expect(ALIVE);
    }
}

#[derive(Actor)]
struct Teller {
    accounts: Vec<ActorRef<Account>>,
    book: Book,
}

struct Done(u64);

impl Message<Done> for Teller {
    type Reply = ();

    async fn handle(&mut self, Done(amount): Done, context: &mut Context<Self, ()>) {
        if self.book.is_round_done(amount) {
            self.begin_round(context.actor_ref());
        }
    }
}

struct Begin;

impl Message<Begin> for Teller {
    type Reply = ();

    async fn handle(&mut self, _: Begin, context: &mut Context<Self, ()>) {
        self.begin_round(context.actor_ref());
    }
}

impl Teller {
    fn begin_round(&mut self, myself: &ActorRef<Self>) {
        self.book.begin_round(|transfer| {
            let credit = Credit {
                amount: transfer.amount,
                target: self.accounts[transfer.target].clone(),
                teller: myself.clone(),
            };
            let account = &self.accounts[transfer.source];
            account.tell(credit).try_send().expect(ALIVE);
        });
    }
}

pub fn run(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let account = |_| spawn_actor(Account { balance: 0 });
        let accounts = (0..ACCOUNTS_COUNT).map(account).collect();
        let book = Book::new(count, finish);
        let teller = spawn_actor(Teller { accounts, book });
        teller.wait_for_startup().await;
        let started = Instant::now();
        teller.tell(Begin).await.expect(ALIVE);
        started
    })?;
    let ended = waiting.wait(count, bank::sum_of(count))?;
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds))
}
