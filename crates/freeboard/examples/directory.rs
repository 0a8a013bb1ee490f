//! How do I have one actor per account, loaded on first use, saved and gone when it is idle?
//!
//! ```console
//! cargo run -p freeboard --example directory
//! ```

use std::{
    collections::HashMap,
    error::Error,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use freeboard::{Activation, DirectoryOptions, Store, prelude::*};

struct Account {
    balance: u64,
}
struct Deposit(u64);

impl Actor for Account {}

impl Handler<Deposit> for Account {
    type Reply = u64;
    fn handle(&mut self, deposit: Deposit, _cx: &mut Context<Self>) -> u64 {
        self.balance += deposit.0;
        self.balance
    }
}

/// Stands for a database.
#[derive(Clone, Default)]
struct Saved(Arc<Mutex<HashMap<u64, u64>>>);

impl Saved {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store<u64, Account> for Saved {
    type Error = io::Error;
    fn load(&self, activation: &Activation<u64>) -> io::Result<Account> {
        let balance = *self.lock().get(&activation.key).unwrap_or(&0);
        Ok(Account { balance })
    }

    fn save(&self, activation: &Activation<u64>, account: &mut Account) -> io::Result<()> {
        self.lock().insert(activation.key, account.balance);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let saved = Saved::default();
    let options = DirectoryOptions::new().activations_max(10_000);
    let options = options.idle_after(Duration::from_millis(20));
    let accounts = system.directory(options, saved.clone())?;

    for account in 0..1_000 {
        accounts.tell(&account, Deposit(5))?;
    }
    while accounts.activations() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(accounts.ask(&7, Deposit(2)).wait()?, 7);

    // A shutdown saves those that are active.
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    assert_eq!(saved.lock().get(&7), Some(&7));
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
