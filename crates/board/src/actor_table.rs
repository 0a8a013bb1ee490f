//! All actors of a system at one time, their rates since the previous survey, and the selection of a query.

use std::cmp::Ordering;

use freeboard_actor::{ActorKey, ActorStats, StatsDetail, System};
use freeboard_meter::now_ns;

use crate::{
    filter::Filter,
    query::{Order, Query, SortKey},
};

/// One actor and its rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActorEntry<'a> {
    pub(crate) stats: &'a ActorStats,
    pub(crate) rates: Rates,
}

/// Messages a second since the previous survey.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) in_per_s: f64,
    pub(crate) out_per_s: f64,
}

/// All actors as of the last survey. The memory is reused by each survey.
#[derive(Debug, Default)]
pub(crate) struct ActorTable {
    pub(crate) number: u64,
    pub(crate) at_ns: u64,
    pub(crate) has_times: bool,
    pub(crate) depth: u64,
    /// Of all actors together; `None` before the second survey.
    pub(crate) all: Option<Rates>,
    /// In the order of `ActorKey`.
    actors: Vec<ActorStats>,
    /// Of the survey before.
    previous: Vec<ActorStats>,
    /// By index of `actors`.
    rates: Vec<Rates>,
}

/// The rows of a query, in its order and within its limit.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) matched: u64,
    /// Indices of the table.
    pub(crate) picked: Vec<usize>,
}

impl ActorTable {
    /// Surveys all actors; rates are relative to the previous survey.
    pub(crate) fn refresh(&mut self, system: &System, what: StatsDetail) {
        let before_ns = self.at_ns;
        std::mem::swap(&mut self.actors, &mut self.previous);
        system.actor_stats_into(what, &mut self.actors);
        self.at_ns = now_ns();
        self.number += 1;
        self.has_times = what == StatsDetail::Latencies;
        self.depth = self.actors.iter().map(|stats| stats.depth).sum();
        // A coarse clock may give two surveys the same time.
        let seconds = self.at_ns.saturating_sub(before_ns).max(1) as f64 / 1e9;
        let mut previous = self.previous.iter().peekable();
        let rates = self.actors.iter().map(|stats| {
            // Both are in the same order: actors that are in one of them only are skipped.
            while previous.next_if(|it| it.at < stats.at).is_some() {}
            let before = previous.next_if(|it| it.at == stats.at);
            match before_ns {
                0 => Rates::default(),
                // The counters of a new actor began at 0.
                _ => Rates::between(before, stats, seconds),
            }
        });
        self.rates.clear();
        self.rates.extend(rates);
        self.all = (before_ns > 0).then(|| Rates {
            in_per_s: self.rates.iter().map(|it| it.in_per_s).sum(),
            out_per_s: self.rates.iter().map(|it| it.out_per_s).sum(),
        });
    }

    /// The number of actors.
    pub(crate) fn len(&self) -> usize {
        self.actors.len()
    }

    pub(crate) fn actor(&self, index: usize) -> ActorEntry<'_> {
        ActorEntry {
            stats: &self.actors[index],
            rates: self.rates[index],
        }
    }

    /// The key of the actor with this id.
    pub(crate) fn find(&self, id: u64) -> Option<ActorKey> {
        let mut ats = self.actors.iter().map(|stats| stats.at);
        ats.find(|at| at.id() == id)
    }

    /// The actors that match a query.
    pub(crate) fn select(&self, query: &Query, filter: &Filter) -> Selection {
        let mut picked: Vec<usize> = (0..self.len())
            .filter(|index| filter.matches(self.actor(*index)))
            .collect();
        let matched = picked.len();
        let by =
            |a: &usize, b: &usize| compare(self.actor(*a), self.actor(*b), query.sort, query.order);
        let begin = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let begin = begin.min(matched);
        let end = (begin + query.limit as usize).min(matched);
        // Only the page that is shown is sorted, not all of a hundred thousand actors.
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

impl ActorEntry<'_> {
    /// The number in a column; `None` if it was not measured, or if the column is text.
    pub(crate) fn number(self, key: SortKey) -> Option<f64> {
        let stats = self.stats;
        let time = |time: Option<u64>| time.map(|ns| ns as f64);
        Some(match key {
            SortKey::Id => stats.at.id() as f64,
            SortKey::Depth => stats.depth as f64,
            SortKey::Bound => stats.bound as f64,
            SortKey::HighWater => stats.high_water as f64,
            SortKey::In => self.rates.in_per_s,
            SortKey::Out => self.rates.out_per_s,
            SortKey::Accepted => stats.accepted as f64,
            SortKey::Handled => stats.handled as f64,
            SortKey::Shed => stats.shed as f64,
            SortKey::Restarts => f64::from(stats.restarts),
            SortKey::QueueP50 => return time(stats.times?.queue_p50_ns),
            SortKey::QueueP99 => return time(stats.times?.queue_p99_ns),
            SortKey::HandlingP99 => return time(stats.times?.handling_p99_ns),
            SortKey::Name | SortKey::Type | SortKey::State => return None,
        })
    }
}

/// A total order: equal actors are sorted by id, so that rows keep their positions; actors without a value
/// come last in both orders.
fn compare(a: ActorEntry<'_>, b: ActorEntry<'_>, key: SortKey, order: Order) -> Ordering {
    let turned = |ordering: Ordering| match order {
        Order::Asc => ordering,
        Order::Desc => ordering.reverse(),
    };
    let by_column = match key {
        SortKey::Name => some_first(a.stats.name.as_deref(), b.stats.name.as_deref(), |a, b| {
            turned(a.cmp(b))
        }),
        SortKey::Type => turned(a.stats.actor_type.cmp(b.stats.actor_type)),
        SortKey::State => turned(a.stats.state.cmp(b.stats.state)),
        key => some_first(a.number(key), b.number(key), |a, b| turned(a.total_cmp(&b))),
    };
    by_column.then_with(|| a.stats.at.id().cmp(&b.stats.at.id()))
}

fn some_first<T>(a: Option<T>, b: Option<T>, by: impl Fn(T, T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => by(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}
