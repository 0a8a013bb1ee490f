//! Savina's BankTransaction on ractor. An account awaits the reply in its handler, as in Savina.

use std::time::Instant;

use anyhow::Result;
use ractor::{ActorRef, RpcReplyPort};

use crate::bank::{self, ACCOUNTS_COUNT, Book};
use crate::finish;
use crate::outcome::Outcome;

use super::ractor::{ALIVE, Behaviour, spawn_actor};
use super::tokio_runtime::{run_on_worker, start};

struct Account {
    balance: u64,
}

enum Order {
    Credit {
        amount: u64,
        target: ActorRef<Order>,
        teller: ActorRef<ToTeller>,
    },
    Debit(u64, RpcReplyPort<u64>),
}

impl Behaviour for Account {
    type Message = Order;

    async fn handle(&mut self, _: &ActorRef<Order>, order: Order) {
        match order {
            Order::Credit {
                amount,
                target,
                teller,
            } => {
                self.balance = self.balance.wrapping_sub(amount);
                let reply = target.call(|port| Order::Debit(amount, port), None).await;
                let amount = reply.expect(ALIVE).expect("an account replies to all");
                teller.cast(ToTeller::Done(amount)).expect(ALIVE);
            }
            Order::Debit(amount, port) => {
                self.balance = self.balance.wrapping_add(amount);
                port.send(amount).expect(ALIVE);
            }
        }
    }
}

struct Teller {
    accounts: Vec<ActorRef<Order>>,
    book: Book,
}

enum ToTeller {
    Begin,
    Done(u64),
}

impl Behaviour for Teller {
    type Message = ToTeller;

    async fn handle(&mut self, myself: &ActorRef<ToTeller>, message: ToTeller) {
        let begins = match message {
            ToTeller::Begin => true,
            ToTeller::Done(amount) => self.book.is_round_done(amount),
        };
        if begins {
            self.book.begin_round(|transfer| {
                let credit = Order::Credit {
                    amount: transfer.amount,
                    target: self.accounts[transfer.target].clone(),
                    teller: myself.clone(),
                };
                self.accounts[transfer.source].cast(credit).expect(ALIVE);
            });
        }
    }
}

pub fn run(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let mut accounts = Vec::new();
        for _ in 0..ACCOUNTS_COUNT {
            accounts.push(spawn_actor(Account { balance: 0 }).await);
        }
        let book = Book::new(count, finish);
        let teller = spawn_actor(Teller { accounts, book }).await;
        let started = Instant::now();
        teller.cast(ToTeller::Begin).expect(ALIVE);
        started
    })?;
    let ended = waiting.wait(count, bank::sum_of(count))?;
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds))
}
