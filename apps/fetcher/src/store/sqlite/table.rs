//! The table, in SQLite's words.

use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS devices \
    (user TEXT PRIMARY KEY, device TEXT NOT NULL) WITHOUT ROWID";

const LOOK_UP: &str = "SELECT device FROM devices WHERE user = ?";

/// In the order of the key, so that the tree grows at its end.
const PROVISION: &str = "INSERT OR IGNORE INTO devices \
    WITH RECURSIVE number(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < ?) \
    SELECT 'user-' || n, 'device-' || n FROM number ORDER BY 1";

/// Answers one query out of one state of the table.
///
/// User by user, for an `IN` of all of them, whose rows have to be put in order again, was no quicker: some
/// 270,000 users a second of two million either way, 64 to a query. Each in a transaction of its own made
/// half of that.
pub(super) fn look_up(connection: &Connection, users: &[String]) -> Result<Vec<Option<String>>> {
    let _snapshot = connection.unchecked_transaction()?;
    users
        .iter()
        .map(|user| look_up_one(connection, user))
        .collect()
}

pub(super) fn look_up_one(connection: &Connection, user: &str) -> Result<Option<String>> {
    let mut statement = connection.prepare_cached(LOOK_UP)?;
    statement.query_row([user], |row| row.get(0)).optional()
}

pub(super) fn provision(connection: &mut Connection, users: u64) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(CREATE, ())?;
    if let Some(last) = users.checked_sub(1) {
        // They are put in all at once: with the last one all are there.
        if look_up_one(&transaction, &format!("user-{last}"))?.is_none() {
            transaction.execute(PROVISION, [users])?;
        }
    }
    transaction.commit()
}
