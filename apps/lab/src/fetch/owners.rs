//! The memory of the service by owner, over a run.

use freeboard_fetcher::held::Held;
use serde::Serialize;

use crate::{
    figures::{mebibytes, short},
    plot::{self, Axis, Series},
    section::{Figure, Side},
};

/// Resident memory by owner, at one time, in bytes. Sizes are counts times sizes; the rest is all that is not known,
/// with what the allocator adds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Owners {
    /// Before the run: the program, and the data of embedded servers.
    pub(super) before: u64,
    /// Notifications in the queues of an embedded broker.
    pub(super) broker: u64,
    #[serde(flatten)]
    pub(super) held: Held,
    /// Replies that nobody has taken yet, in the queues of an embedded broker.
    pub(super) replies: u64,
    pub(super) rest: u64,
    pub(super) resident: u64,
}

impl Owners {
    /// Of the resident memory, what no other owner has.
    pub(super) fn with_resident(self, before: u64, resident: u64) -> Self {
        let held = self.held;
        let known =
            before + self.broker + self.replies + held.mailboxes + held.in_flight + held.cache;
        Self {
            before,
            resident,
            rest: resident.saturating_sub(known),
            ..self
        }
    }

    /// What is in queues of any kind.
    pub(super) fn queued(&self) -> u64 {
        self.broker + self.held.mailboxes + self.held.in_flight + self.replies
    }

    /// Their names and sizes.
    fn all(&self) -> [(&'static str, u64); 7] {
        [
            ("before the run", self.before),
            ("broker's queues", self.broker),
            ("mailboxes", self.held.mailboxes),
            ("in flight to Redis", self.held.in_flight),
            ("replies waiting", self.replies),
            ("cache", self.held.cache),
            ("rest", self.rest),
        ]
    }

    /// A table of one line, the header first.
    pub(super) fn table(&self, title: &str) -> Vec<Vec<String>> {
        let (names, sizes) = self
            .all()
            .map(|(name, size)| (name.to_owned(), mebibytes(size)))
            .into_iter()
            .unzip();
        let with = |first: &str, rest: Vec<String>| [vec![first.to_owned()], rest].concat();
        vec![with("memory at the peak", names), with(title, sizes)]
    }
}

/// One reading, and its time since the begin in seconds.
pub(super) type Reading = (f64, Owners);

/// The owners whose memory grows, over time.
pub(super) fn figure(title: &str, side: Side, readings: &[Reading]) -> Option<Figure> {
    let (_, first) = readings.first()?;
    let names = first.all();
    let series = names
        .iter()
        .enumerate()
        .skip(1)
        .map(|(number, (name, _))| Series {
            name: (*name).to_owned(),
            points: readings
                .iter()
                .map(|(seconds, owners)| {
                    (*seconds, owners.all()[number].1 as f64 / f64::from(1 << 20))
                })
                .collect(),
        });
    let series: Vec<Series> = series.collect();
    let x = Axis::linear("seconds", short);
    let y = Axis::linear("MiB", short);
    let title = format!("memory by owner, {title}");
    Some(Figure {
        side,
        svg: plot::lines(&title, x, y, &series),
        title,
        note: "Counts times sizes; the rest has what the allocator adds.".to_owned(),
    })
}
