//! The query of a viewer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most rows of actors in one frame.
pub const ROWS_MAX: u32 = 200;

/// The rows of a frame by default; the page relies on it.
const ROWS_DEFAULT: u32 = 25;

/// The longest filter, in bytes.
pub const FILTER_BYTES_MAX: usize = 256;

/// Selects a system, rows of its actors, and one actor in detail. Default: the newest system and the 25
/// longest mailboxes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// The system's name on the board; the newest alive if `None`.
    pub system: Option<String>,
    /// The column to sort by.
    pub sort: SortKey,
    /// The sort order.
    pub order: Order,
    /// Words and comparisons, see [`Filter`](crate::Filter).
    pub filter: String,
    /// The number of matching actors to skip.
    pub offset: u64,
    /// The most rows, up to [`ROWS_MAX`].
    pub limit: u32,
    /// The id of an actor to show in detail.
    pub actor: Option<u64>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            system: None,
            sort: SortKey::default(),
            order: Order::default(),
            filter: String::new(),
            offset: 0,
            limit: ROWS_DEFAULT,
            actor: None,
        }
    }
}

/// A column of the actors' table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortKey {
    /// Its name; actors without a name come last.
    Name,
    /// Its type.
    Type,
    /// Its state.
    State,
    /// Messages queued.
    #[default]
    Depth,
    /// Capacity of its lanes.
    Bound,
    /// High-water mark of its lanes.
    HighWater,
    /// Messages accepted a second.
    In,
    /// Messages handled a second.
    Out,
    /// Messages not handled.
    Shed,
    /// Median time in queue.
    QueueP50,
    /// 99th percentile of the time in queue.
    QueueP99,
    /// 99th percentile of the handling time.
    HandlingP99,
    /// Restarts.
    Restarts,
    /// The actor's id.
    Id,
    /// Messages accepted.
    Accepted,
    /// Messages handled.
    Handled,
}

impl SortKey {
    /// All columns with their names in a query, in the order of their declaration and of a table.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Name, "name"),
        (Self::Type, "type"),
        (Self::State, "state"),
        (Self::Depth, "depth"),
        (Self::Bound, "bound"),
        (Self::HighWater, "high_water"),
        (Self::In, "in"),
        (Self::Out, "out"),
        (Self::Shed, "shed"),
        (Self::QueueP50, "queue_p50"),
        (Self::QueueP99, "queue_p99"),
        (Self::HandlingP99, "handling_p99"),
        (Self::Restarts, "restarts"),
        (Self::Id, "id"),
        (Self::Accepted, "accepted"),
        (Self::Handled, "handled"),
    ];

    /// The column's name, as in a query.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The column of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find_map(|(key, of)| (of == name).then_some(key))
    }

    /// Whether it needs histograms.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Self::QueueP50 | Self::QueueP99 | Self::HandlingP99)
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending.
    Asc,
    /// Descending.
    #[default]
    Desc,
}
