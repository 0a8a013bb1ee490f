//! Savina's BankTransaction: a teller orders transfers between accounts and counts those that are done.
//!
//! ```text
//!   teller ──credit──> account ──debit, as a request──> another account
//!      └────────done──────┘ <───────reply─────────────────────┘
//! ```
//!
//! A thousand accounts; 50,000 transfers are under way at once, as in Savina. A round ends when all are done, and the
//! work has several rounds. As in Savina an account transfers only to accounts of larger numbers, so accounts that wait
//! for a reply do not wait in a circle.

use crate::finish::Finish;
use crate::tally::Tally;

pub const ACCOUNTS_COUNT: usize = 1_000;
/// Transfers that are under way at once.
pub const ROUND: u64 = 50_000;

/// Money from one account to another, by their numbers.
pub struct Transfer {
    pub source: usize,
    pub target: usize,
    pub amount: u64,
}

/// The same transfers for each peer, by the generator of Park and Miller.
struct Transfers {
    state: u64,
}

impl Transfers {
    const fn new() -> Self {
        Self { state: 1 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state * 48_271 % 0x7fff_ffff;
        self.state % limit
    }

    fn next(&mut self) -> Transfer {
        let accounts = ACCOUNTS_COUNT as u64;
        let source = self.below(accounts / 10 * 8);
        let target = source + self.below(accounts - source).max(1);
        Transfer {
            source: source as usize,
            target: target as usize,
            amount: self.below(1_000),
        }
    }
}

/// The teller's list.
pub struct Book {
    transfers: Transfers,
    left: u64,
    under_way: u64,
    tally: Tally,
}

impl Book {
    pub fn new(count: u64, finish: Finish) -> Self {
        Self {
            transfers: Transfers::new(),
            left: count,
            under_way: 0,
            tally: Tally::new(count, finish),
        }
    }

    /// Orders the transfers of a round.
    pub fn begin_round(&mut self, mut order: impl FnMut(Transfer)) {
        self.under_way = self.left.min(ROUND);
        self.left -= self.under_way;
        for _ in 0..self.under_way {
            order(self.transfers.next());
        }
    }

    /// A transfer of this amount is done. True if another round begins.
    pub fn is_round_done(&mut self, amount: u64) -> bool {
        self.under_way -= 1;
        let is_last = self.tally.add(amount);
        self.under_way == 0 && !is_last
    }
}

/// What the amounts of so many transfers add up to.
pub fn sum_of(count: u64) -> u64 {
    let mut transfers = Transfers::new();
    (0..count).map(|_| transfers.next().amount).sum()
}
