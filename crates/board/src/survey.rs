//! All actors of a system as of one look, with what happened since the look before; and the part of them
//! that a viewer asked for.

use std::cmp::Ordering;

use freeboard_actor::{ActorKey, ActorStats, StatsDetail, System};
use freeboard_meter::now_ns;

use crate::{
    filter::Filter,
    query::{Order, Query, SortKey},
};

/// One actor and its rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surveyed<'a> {
    pub(crate) reading: &'a ActorStats,
    pub(crate) rates: Rates,
}

/// Messages a second since the look before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) in_per_s: f64,
    pub(crate) out_per_s: f64,
}

/// All actors as of one look. Its memory is used for one look after the other.
#[derive(Debug, Default)]
pub(crate) struct Census {
    pub(crate) number: u64,
    pub(crate) at_ns: u64,
    pub(crate) has_times: bool,
    pub(crate) depth: u64,
    /// Of all actors together; none before the second look.
    pub(crate) all: Option<Rates>,
    /// In the order of `ActorKey`.
    readings: Vec<ActorStats>,
    /// Of the look before.
    earlier: Vec<ActorStats>,
    /// By the indices of `readings`.
    rates: Vec<Rates>,
}

/// Those that match a query, in its order, and no more than it asked for.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) matched: u64,
    /// Indices into the census.
    pub(crate) picked: Vec<usize>,
}

impl Census {
    /// Looks at all actors; rates are against the look before.
    pub(crate) fn look(&mut self, system: &System, what: StatsDetail) {
        let before_ns = self.at_ns;
        std::mem::swap(&mut self.readings, &mut self.earlier);
        system.actor_stats_into(what, &mut self.readings);
        self.at_ns = now_ns();
        self.number += 1;
        self.has_times = what == StatsDetail::Latencies;
        self.depth = self.readings.iter().map(|reading| reading.depth).sum();
        // Two looks are never at the same time, but a clock may be coarse.
        let seconds = self.at_ns.saturating_sub(before_ns).max(1) as f64 / 1e9;
        let mut earlier = self.earlier.iter().peekable();
        let rates = self.readings.iter().map(|reading| {
            // Both are in the same order: who is not in one of them is passed over.
            while earlier.next_if(|it| it.at < reading.at).is_some() {}
            let before = earlier.next_if(|it| it.at == reading.at);
            match before_ns {
                0 => Rates::default(),
                // One that is new began at nothing.
                _ => Rates::between(before, reading, seconds),
            }
        });
        self.rates.clear();
        self.rates.extend(rates);
        self.all = (before_ns > 0).then(|| Rates {
            in_per_s: self.rates.iter().map(|it| it.in_per_s).sum(),
            out_per_s: self.rates.iter().map(|it| it.out_per_s).sum(),
        });
    }

    /// How many actors there are.
    pub(crate) fn len(&self) -> usize {
        self.readings.len()
    }

    pub(crate) fn actor(&self, index: usize) -> Surveyed<'_> {
        Surveyed {
            reading: &self.readings[index],
            rates: self.rates[index],
        }
    }

    /// Where the actor of that number is.
    pub(crate) fn find(&self, id: u64) -> Option<ActorKey> {
        let mut ats = self.readings.iter().map(|reading| reading.at);
        ats.find(|at| at.id() == id)
    }

    /// The actors that a query asks for.
    pub(crate) fn select(&self, query: &Query, filter: &Filter) -> Selection {
        let mut picked: Vec<usize> = (0..self.len())
            .filter(|index| filter.lets_through(self.actor(*index)))
            .collect();
        let matched = picked.len();
        let by =
            |a: &usize, b: &usize| compare(self.actor(*a), self.actor(*b), query.sort, query.order);
        let begin = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let begin = begin.min(matched);
        let end = (begin + query.limit as usize).min(matched);
        // Only what is shown is sorted, which of a hundred thousand is a page.
        if begin > 0 && begin < matched {
            picked.select_nth_unstable_by(begin, by);
        }
        let mut picked = picked.split_off(begin);
        let length = end - begin;
        if length > 0 && length < picked.len() {
            picked.select_nth_unstable_by(length, by);
        }
        picked.truncate(length);
        picked.sort_unstable_by(by);
        Selection {
            matched: matched as u64,
            picked,
        }
    }
}

impl Rates {
    fn between(before: Option<&ActorStats>, now: &ActorStats, seconds: f64) -> Self {
        let (accepted, handled) = before.map_or((0, 0), |it| (it.accepted, it.handled));
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Self {
            in_per_s: rate(now.accepted, accepted),
            out_per_s: rate(now.handled, handled),
        }
    }
}

impl Surveyed<'_> {
    /// The number in a column; none if it was not measured, or if the column has no numbers.
    pub(crate) fn number(self, key: SortKey) -> Option<f64> {
        let reading = self.reading;
        let time = |time: Option<u64>| time.map(|ns| ns as f64);
        Some(match key {
            SortKey::Id => reading.at.id() as f64,
            SortKey::Depth => reading.depth as f64,
            SortKey::Bound => reading.bound as f64,
            SortKey::HighWater => reading.high_water as f64,
            SortKey::In => self.rates.in_per_s,
            SortKey::Out => self.rates.out_per_s,
            SortKey::Accepted => reading.accepted as f64,
            SortKey::Handled => reading.handled as f64,
            SortKey::Shed => reading.shed as f64,
            SortKey::Restarts => f64::from(reading.restarts),
            SortKey::QueueP50 => return time(reading.times?.queue_p50_ns),
            SortKey::QueueP99 => return time(reading.times?.queue_p99_ns),
            SortKey::HandlingP99 => return time(reading.times?.handling_p99_ns),
            SortKey::Name | SortKey::Type | SortKey::State => return None,
        })
    }
}

/// Total: actors that are equal in the column come by their numbers, so that rows do not dance; those
/// that have nothing in it come last, whatever the order.
fn compare(a: Surveyed<'_>, b: Surveyed<'_>, key: SortKey, order: Order) -> Ordering {
    let turned = |ordering: Ordering| match order {
        Order::Asc => ordering,
        Order::Desc => ordering.reverse(),
    };
    let by_column = match key {
        SortKey::Name => some_first(
            a.reading.name.as_deref(),
            b.reading.name.as_deref(),
            |a, b| turned(a.cmp(b)),
        ),
        SortKey::Type => turned(a.reading.actor_type.cmp(b.reading.actor_type)),
        SortKey::State => turned(a.reading.state.cmp(b.reading.state)),
        key => some_first(a.number(key), b.number(key), |a, b| turned(a.total_cmp(&b))),
    };
    by_column.then_with(|| a.reading.at.id().cmp(&b.reading.at.id()))
}

fn some_first<T>(a: Option<T>, b: Option<T>, by: impl Fn(T, T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => by(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}
