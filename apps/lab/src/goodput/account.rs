//! What became of the requests: each has one fate, from what its client saw and whether the service handled it.

use std::{ops::Range, time::Duration};

use serde::Serialize;

use super::client::{Asked, End};
use crate::figures::percentile_ms;

/// The answers in time, one after the other, after which the service has recovered.
const RECOVERED: usize = 20;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    InTime,
    /// Answered after its deadline, or still waiting then.
    Late,
    Refused,
    /// Its deadline passed in the queue, and it was not handled.
    Expired,
    /// Anything else.
    Lost,
}

impl Fate {
    /// `handled` is how often the service handled it.
    pub(super) fn of(asked: &Asked, handled: u8, deadline: Duration) -> Self {
        match (asked.end, handled) {
            (End::Answered, 1) if asked.ended <= asked.due + deadline => Self::InTime,
            // The client of an expired one did not wait for the answer.
            (End::Answered | End::Expired, 1) | (End::Queued, 0) => Self::Late,
            (End::Refused, 0) => Self::Refused,
            (End::Expired, 0) => Self::Expired,
            _ => Self::Lost,
        }
    }
}

/// Requests by their fate: the others add up to `offered`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) offered: u64,
    pub(super) in_time: u64,
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) expired: u64,
    pub(super) lost: u64,
}

impl Counts {
    pub(super) fn add(&mut self, fate: Fate) {
        self.offered += 1;
        *match fate {
            Fate::InTime => &mut self.in_time,
            Fate::Late => &mut self.late,
            Fate::Refused => &mut self.refused,
            Fate::Expired => &mut self.expired,
            Fate::Lost => &mut self.lost,
        } += 1;
    }
}

/// The requests of a run, each with its fate.
#[derive(Debug)]
pub(super) struct Account(Vec<(Asked, Fate)>);

impl Account {
    pub(super) fn new(asked: &[Asked], handled: &[u8], deadline: Duration) -> Self {
        let fate = |(asked, handled): (&Asked, &u8)| (*asked, Fate::of(asked, *handled, deadline));
        Self(asked.iter().zip(handled).map(fate).collect())
    }

    /// Those that were due within this time.
    fn within(&self, time: &Range<Duration>) -> impl Iterator<Item = &(Asked, Fate)> {
        self.0.iter().filter(|(asked, _)| time.contains(&asked.due))
    }

    pub(super) fn counts(&self, time: &Range<Duration>) -> Counts {
        let mut counts = Counts::default();
        self.within(time).for_each(|(_, fate)| counts.add(*fate));
        counts
    }

    /// The share of the urgent requests that was answered in time.
    pub(super) fn urgent_share(&self, time: &Range<Duration>) -> Option<f64> {
        let urgent = || self.within(time).filter(|(asked, _)| asked.is_urgent);
        let in_time = urgent().filter(|(_, fate)| *fate == Fate::InTime);
        let offered = urgent().count();
        (offered > 0).then(|| in_time.count() as f64 / offered as f64)
    }

    /// Percentiles, in milliseconds, of the time from due to answer. A request without an answer counts with its age
    /// when its client gave up, which is less than the time that it would have taken.
    pub(super) fn percentiles_ms<const N: usize>(
        &self,
        time: &Range<Duration>,
        shares: [f64; N],
    ) -> [Option<f64>; N] {
        let is_admitted = |fate| matches!(fate, Fate::InTime | Fate::Late);
        let admitted = self.within(time).filter(|(_, fate)| is_admitted(*fate));
        let mut times: Vec<Duration> = admitted
            .map(|(asked, _)| asked.ended.saturating_sub(asked.due))
            .collect();
        times.sort_unstable();
        shares.map(|share| percentile_ms(&times, share))
    }

    /// The time from `drop` on until answers were in time again; `None` if they were not.
    pub(super) fn recovered_s(&self, drop: Duration) -> Option<f64> {
        let after = self.0.partition_point(|(asked, _)| asked.due < drop);
        let mut rows = self.0[after..].windows(RECOVERED);
        let row = rows.find(|row| row.iter().all(|(_, fate)| *fate == Fate::InTime))?;
        let (first, _) = row.first()?;
        Some((first.due - drop).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn asked(due: u64, ended: u64, end: End) -> Asked {
        Asked {
            due: ms(due),
            ended: ms(ended),
            end,
            is_urgent: due.is_multiple_of(2),
        }
    }

    #[test]
    fn each_request_has_one_fate() {
        use End::{Answered, Expired, None, Queued, Refused};
        for (end, ended, handled, fate) in [
            (Answered, 60, 1, Fate::InTime),
            (Answered, 61, 1, Fate::Late),
            (Expired, 60, 1, Fate::Late),
            (Expired, 60, 0, Fate::Expired),
            (Queued, 900, 0, Fate::Late),
            (Refused, 10, 0, Fate::Refused),
            // These contradict each other.
            (None, 10, 0, Fate::Lost),
            (Answered, 20, 0, Fate::Lost),
            (Answered, 20, 2, Fate::Lost),
            (Refused, 10, 1, Fate::Lost),
            (Queued, 900, 1, Fate::Lost),
        ] {
            let asked = asked(10, ended, end);
            assert_eq!(Fate::of(&asked, handled, ms(50)), fate, "{end:?}");
        }
    }

    #[test]
    fn requests_belong_to_the_time_in_which_they_were_due() {
        let all = [
            asked(0, 1, End::Answered),
            asked(10, 11, End::Answered),
            asked(11, 111, End::Answered),
            asked(12, 12, End::Refused),
            asked(13, 63, End::Expired),
            asked(20, 21, End::Answered),
        ];
        let account = Account::new(&all, &[1, 1, 1, 0, 0, 1], ms(50));
        let time = ms(10)..ms(20);
        let wanted = Counts {
            offered: 4,
            in_time: 1,
            late: 1,
            refused: 1,
            expired: 1,
            lost: 0,
        };
        assert_eq!(account.counts(&time), wanted);
        // Of 10 and 12.
        assert_eq!(account.urgent_share(&time), Some(0.5));
        let percentiles = account.percentiles_ms(&time, [0.5, 0.99]);
        assert_eq!(percentiles, [Some(1.0), Some(100.0)]);
        let never = ms(30)..ms(40);
        assert_eq!(account.percentiles_ms(&never, [0.5]), [None]);
        assert_eq!(account.urgent_share(&never), None);
    }

    #[test]
    fn recovery_ends_with_a_row_of_answers_in_time() {
        let ends = |due: u64| match due {
            ..15 | 17 => End::Refused,
            _ => End::Answered,
        };
        let all: Vec<Asked> = (0..38).map(|due| asked(due, due, ends(due))).collect();
        let handled: Vec<u8> = all
            .iter()
            .map(|it| u8::from(it.end == End::Answered))
            .collect();
        let account = Account::new(&all, &handled, ms(50));
        assert_eq!(account.recovered_s(ms(8)), Some(0.010));
        assert_eq!(account.recovered_s(ms(18)), Some(0.0));
        assert_eq!(account.recovered_s(ms(19)), None);
    }
}
