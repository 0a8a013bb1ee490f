//! The statements about the table.

use std::{collections::HashMap, ops::Range};

use mysql_async::{Conn, DriverError, FromRowError, Result, Row, from_row_opt, prelude::Queryable};

use super::super::USER_BYTES_MAX;

/// The numbers of users in a statement. For other numbers the last user is repeated, so that few statements stay
/// prepared.
const SIZES: [usize; 4] = [1, 4, 16, 64];

/// The prepared statements of a connection.
pub(super) const STATEMENTS_MAX: usize = SIZES.len();

/// A table of texts by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) table: &'static str,
    /// The column of the names, its key.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// The statements about the table.
pub(super) struct Table {
    create: String,
    look_ups: [(usize, String); SIZES.len()],
}

impl Table {
    pub(super) fn new(layout: Layout) -> Self {
        let Layout { table, name, text } = layout;
        let look_ups = SIZES.map(|size| {
            let places = vec!["?"; size].join(",");
            let look_up = format!("SELECT {name}, {text} FROM {table} WHERE {name} IN ({places})");
            (size, look_up)
        });
        Self {
            // Bytes, not text: no collation makes two names equal, and trailing spaces count.
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} ({name} VARBINARY(512) PRIMARY KEY, \
                 {text} VARCHAR(512) CHARACTER SET utf8mb4 NOT NULL)"
            ),
            look_ups,
        }
    }

    /// Creates the table if it is missing.
    pub(super) async fn create(&self, connection: &mut Conn) -> Result<()> {
        connection.query_drop(&self.create).await
    }

    /// The devices of these users, in their order.
    pub(super) async fn look_up(
        &self,
        connection: &mut Conn,
        users: &[String],
    ) -> Result<Vec<Option<String>>> {
        let names: Vec<&[u8]> = users
            .iter()
            .map(String::as_bytes)
            .filter(|name| name.len() <= USER_BYTES_MAX)
            .collect();
        let mut devices: HashMap<Vec<u8>, String> = HashMap::with_capacity(names.len());
        let [.., (size_max, _)] = &self.look_ups;
        for names in names.chunks(*size_max) {
            devices.extend(self.ask(connection, names).await?);
        }
        let device_of = |user: &String| devices.get(user.as_bytes()).cloned();
        Ok(users.iter().map(device_of).collect())
    }

    /// Creates the table. The number of users to insert: all or none.
    pub(super) async fn prepare(&self, connection: &mut Conn, users: u64) -> Result<u64> {
        self.create(connection).await?;
        let Some(last) = users.checked_sub(1) else {
            return Ok(0);
        };
        // They are inserted in ascending order: if the last is there, all are.
        let last = format!("user-{last}");
        let found = self.ask(connection, &[last.as_bytes()]).await?;
        Ok(if found.is_empty() { users } else { 0 })
    }

    /// Inserts the users with these numbers.
    pub(super) async fn insert(connection: &mut Conn, numbers: Range<u64>) -> Result<()> {
        let Range { start, end } = numbers;
        // In the order of the key, so that neighbours in the tree are inserted together.
        let insert = format!(
            "INSERT IGNORE INTO devices SELECT CONCAT('user-', seq), CONCAT('device-', seq) \
             FROM seq_{start}_to_{last} ORDER BY 1",
            last = end - 1
        );
        connection.query_drop(insert).await
    }

    /// The names found, with their devices.
    async fn ask(&self, connection: &mut Conn, names: &[&[u8]]) -> Result<Vec<(Vec<u8>, String)>> {
        let fits = |(size, _): &&(usize, String)| *size >= names.len();
        let [.., largest] = &self.look_ups;
        let (size, look_up) = self.look_ups.iter().find(fits).unwrap_or(largest);
        let mut padded = names.to_vec();
        if let Some(last) = names.last() {
            padded.resize(*size, last);
        }
        let rows: Vec<Row> = connection.exec(look_up.as_str(), padded).await?;
        rows.into_iter()
            .map(|row| {
                from_row_opt(row).map_err(|FromRowError(row)| DriverError::FromRow { row }.into())
            })
            .collect()
    }
}
