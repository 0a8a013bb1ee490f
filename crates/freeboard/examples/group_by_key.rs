//! How do several actors share work so that all messages of one key go to the same actor, in order?
//!
//! ```console
//! cargo run -p freeboard --example group_by_key
//! ```

use std::{collections::HashMap, error::Error, time::Duration};

use freeboard::prelude::*;

/// A member of the group. Only this member has the state of its customers, so it needs no lock.
struct Accounts {
    member: usize,
    balances: HashMap<String, i64>,
}

struct Book {
    customer: String,
    amount: i64,
}

struct Balance(String);

impl Actor for Accounts {}

impl Handler<Book> for Accounts {
    type Reply = ();
    fn handle(&mut self, book: Book, _cx: &mut Context<Self>) {
        *self.balances.entry(book.customer).or_default() += book.amount;
    }
}

impl Handler<Balance> for Accounts {
    type Reply = (usize, i64);
    fn handle(&mut self, balance: Balance, _cx: &mut Context<Self>) -> (usize, i64) {
        let amount = self.balances.get(&balance.0).copied();
        (self.member, amount.unwrap_or_default())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let options = GroupOptions::new(4)
        .router(Router::HashOfKey)
        .member(SpawnOptions::new().supervision(Supervision::restart()));
    let accounts = system.spawn_group(options, |member| Accounts {
        member,
        balances: HashMap::new(),
    })?;

    let customers = ["ann", "bob", "cid", "dee", "eve"];
    for amount in 1..=1_000 {
        for customer in customers {
            let customer = customer.to_owned();
            let route = accounts.route(&customer);
            route.tell(Book { customer, amount })?;
        }
    }
    for customer in customers {
        let ask = accounts.route(customer).ask(Balance(customer.to_owned()));
        let (member, balance) = ask.wait()?;
        println!("{customer} is with member {member} and has {balance}");
        assert_eq!(balance, 500_500, "all bookings went to this member");
    }
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
