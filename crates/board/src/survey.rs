//! All actors of a system as of one look, with what happened since the look before; and the part of them
//! that a viewer asked for.

use std::cmp::Ordering;

use freeboard_actor::{ActorReading, Survey, System};
use freeboard_meter::now_ns;

use crate::{
    filter::Filter,
    query::{Order, Query, SortKey},
};

/// One actor and its rates.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) reading: ActorReading,
    pub(crate) in_per_s: f64,
    pub(crate) out_per_s: f64,
}

/// All actors as of one look.
#[derive(Debug)]
pub(crate) struct Census {
    pub(crate) number: u64,
    pub(crate) at_ns: u64,
    pub(crate) has_times: bool,
    /// In the order of `ActorAt`.
    pub(crate) actors: Vec<Surveyed>,
    pub(crate) depth: u64,
    pub(crate) in_per_s: f64,
    pub(crate) out_per_s: f64,
}

/// Those that match a query, in its order, and no more than it asked for.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) matched: u64,
    /// Indices into the census.
    pub(crate) picked: Vec<usize>,
}

impl Census {
    /// Looks at all actors; rates are against `before`.
    pub(crate) fn take(system: &System, what: Survey, before: Option<&Self>) -> Self {
        let readings = system.survey(what);
        let at_ns = now_ns();
        let seconds = before.map_or(0.0, |it| at_ns.saturating_sub(it.at_ns) as f64 / 1e9);
        let mut earlier = before.map_or(&[][..], |it| &it.actors).iter().peekable();
        let (mut depth, mut all_in, mut all_out) = (0, 0.0, 0.0);
        let actors = readings
            .into_iter()
            .map(|reading| {
                depth += reading.depth;
                // Both are in the same order: who is not in one of them is passed over.
                while earlier.next_if(|it| it.reading.at < reading.at).is_some() {}
                let same = earlier.next_if(|it| it.reading.at == reading.at);
                let rate = |now: u64, then: fn(&ActorReading) -> u64| match same {
                    Some(it) if seconds > 0.0 => {
                        now.saturating_sub(then(&it.reading)) as f64 / seconds
                    }
                    _ => 0.0,
                };
                let in_per_s = rate(reading.accepted, |it| it.accepted);
                let out_per_s = rate(reading.handled, |it| it.handled);
                all_in += in_per_s;
                all_out += out_per_s;
                Surveyed {
                    reading,
                    in_per_s,
                    out_per_s,
                }
            })
            .collect();
        Self {
            number: before.map_or(1, |it| it.number + 1),
            at_ns,
            has_times: what == Survey::Times,
            actors,
            depth,
            in_per_s: all_in,
            out_per_s: all_out,
        }
    }

    /// The actors that a query asks for.
    pub(crate) fn select(&self, query: &Query, filter: &Filter) -> Selection {
        let actors = &self.actors;
        let mut picked: Vec<usize> = (0..actors.len())
            .filter(|index| filter.lets_through(&actors[*index]))
            .collect();
        let matched = picked.len();
        let by = |a: &usize, b: &usize| compare(&actors[*a], &actors[*b], query.sort, query.order);
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

impl Surveyed {
    /// The number in a column; none if it was not measured, or if the column has no numbers.
    pub(crate) fn number(&self, key: SortKey) -> Option<f64> {
        let reading = &self.reading;
        let time = |time: Option<u64>| time.map(|ns| ns as f64);
        Some(match key {
            SortKey::Id => reading.at.id() as f64,
            SortKey::Depth => reading.depth as f64,
            SortKey::Bound => reading.bound as f64,
            SortKey::HighWater => reading.high_water as f64,
            SortKey::In => self.in_per_s,
            SortKey::Out => self.out_per_s,
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
fn compare(a: &Surveyed, b: &Surveyed, key: SortKey, order: Order) -> Ordering {
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
