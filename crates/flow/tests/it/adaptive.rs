//! The adaptive limit before a simulated service, in virtual time, and its bounds under any latencies.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use freeboard_flow::{AdaptiveLimit, ConfigError, GradientLimit, LIMIT_MAX, random};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const WINDOW: Duration = Duration::from_millis(10);

/// A service of so many workers with one queue, whose requests pass the limit.
struct Service {
    limit: GradientLimit,
    workers: usize,
    now_ns: u64,
    /// When each worker is free, and when each request in flight was let through and ends.
    free_ns: BinaryHeap<Reverse<u64>>,
    in_flight: BinaryHeap<Reverse<(u64, u64)>>,
    turn: u64,
}

struct Seen {
    /// Requests handled over what the workers can handle.
    goodput: f64,
    latency_max_ns: u64,
    limit_mean: f64,
}

impl Service {
    fn new(workers: usize, config: AdaptiveLimit) -> Self {
        config.validate().unwrap();
        Self {
            limit: GradientLimit::new(config),
            workers,
            now_ns: 0,
            free_ns: (0..workers).map(|_| Reverse(0)).collect(),
            in_flight: BinaryHeap::new(),
            turn: 0,
        }
    }

    fn random(&mut self) -> f64 {
        self.turn += 1;
        ((random::number(3, self.turn) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// An open loop of `load` times the capacity. A request takes half to one and a half of `mean_ns`.
    fn run(&mut self, time_ns: u64, mean_ns: u64, load: f64) -> Seen {
        let end_ns = self.now_ns + time_ns;
        let gap_ns = mean_ns as f64 / self.workers as f64 / load;
        let (mut handled, mut latency_max_ns, mut limits, mut arrivals) = (0, 0, 0, 0);
        let mut is_refused = false;
        while self.now_ns < end_ns {
            self.now_ns += (-self.random().ln() * gap_ns) as u64;
            while let Some(Reverse((done_ns, begun_ns))) = self.in_flight.peek().copied()
                && done_ns <= self.now_ns
            {
                let latency_ns = done_ns - begun_ns;
                let is_used = 2 * self.in_flight.len() as u64 >= self.limit.get();
                self.limit
                    .sample(done_ns, latency_ns, is_used || is_refused);
                is_refused = false;
                self.in_flight.pop();
                handled += 1;
                latency_max_ns = latency_max_ns.max(latency_ns);
            }
            arrivals += 1;
            limits += self.limit.get();
            if self.in_flight.len() as u64 >= self.limit.get() {
                is_refused = true;
                continue;
            }
            let took_ns = (mean_ns as f64 * (0.5 + self.random())) as u64;
            let Reverse(free_ns) = self.free_ns.pop().unwrap();
            let done_ns = free_ns.max(self.now_ns) + took_ns;
            self.free_ns.push(Reverse(done_ns));
            self.in_flight.push(Reverse((done_ns, self.now_ns)));
        }
        Seen {
            goodput: handled as f64 * mean_ns as f64 / (time_ns as f64 * self.workers as f64),
            latency_max_ns,
            limit_mean: limits as f64 / f64::from(arrivals),
        }
    }
}

fn config(initial: u64) -> AdaptiveLimit {
    AdaptiveLimit {
        min: 1,
        initial,
        window: WINDOW,
        ..AdaptiveLimit::default()
    }
}

#[test]
fn it_converges_from_below_and_from_above() {
    for workers in [1, 4, 32, 100] {
        for initial in [1, 1_000] {
            let mut service = Service::new(workers, config(initial));
            service.run(2_000 * MS, MS, 10.0);
            let seen = service.run(4_000 * MS, MS, 10.0);
            let what = format!(
                "{workers} workers from {initial}: limit {}",
                seen.limit_mean
            );
            assert!(seen.goodput >= 0.95, "{what}, goodput {}", seen.goodput);
            // Twice the workers, and what the probe lets queue.
            assert!(seen.limit_mean <= 2.0 * workers as f64 + 16.0, "{what}");
        }
    }
}

#[test]
fn it_recovers_after_a_change_of_the_service_time() {
    let mut service = Service::new(8, config(20));
    for mean_ns in [MS, 4 * MS, MS, MS / 2] {
        service.run(4_000 * MS, mean_ns, 10.0);
        let seen = service.run(4_000 * MS, mean_ns, 10.0);
        let what = format!("{mean_ns} ns: limit {}", seen.limit_mean);
        assert!(seen.goodput >= 0.95, "{what}, goodput {}", seen.goodput);
        assert!(seen.limit_mean <= 32.0, "{what}");
        assert!(seen.latency_max_ns <= 8 * mean_ns, "{what}");
    }
}

#[test]
fn it_lets_through_what_the_service_can_take() {
    let mut service = Service::new(8, config(20));
    service.run(1_000 * MS, MS, 0.7);
    let seen = service.run(4_000 * MS, MS, 0.7);
    assert!((0.68..0.72).contains(&seen.goodput), "{}", seen.goodput);
}

#[test]
fn a_range_that_cannot_hold_says_why() {
    let range = |min, initial, max| AdaptiveLimit {
        min,
        initial,
        max,
        ..AdaptiveLimit::default()
    };
    assert_eq!(AdaptiveLimit::default().validate(), Ok(()));
    assert_eq!(range(1, 1, LIMIT_MAX).validate(), Ok(()));
    for (min, initial, max) in [(0, 1, 2), (2, 1, 2), (1, 3, 2), (1, 1, LIMIT_MAX + 1)] {
        let wanted = ConfigError::LimitRange { min, initial, max };
        assert_eq!(range(min, initial, max).validate(), Err(wanted));
    }
    let still = AdaptiveLimit {
        window: Duration::ZERO,
        ..AdaptiveLimit::default()
    };
    assert_eq!(still.validate(), Err(ConfigError::LimitWindowZero));
}

#[test]
fn lower_lanes_may_use_half_of_the_lane_above() {
    let shares = [0, 1, 2, 7, 64].map(|lane| AdaptiveLimit::share(20, lane));
    assert_eq!(shares, [20, 10, 5, 1, 1]);
}

proptest! {
    #[test]
    fn it_stays_within_its_range_and_grows_only_when_it_is_used(
        min in 1_u64..20,
        initial in 0_u64..50,
        max in 0_u64..200,
        samples in prop::collection::vec((0_u64..3 * MS, 0_u64..100 * MS, any::<bool>()), 0..400),
        is_ever_used in any::<bool>(),
    ) {
        let initial = min + initial;
        let max = initial + max;
        let config = AdaptiveLimit { min, initial, max, window: WINDOW };
        let mut limit = GradientLimit::new(config);
        let mut now_ns = 0;
        for (pause_ns, latency_ns, is_used) in samples {
            now_ns += pause_ns;
            limit.sample(now_ns, latency_ns, is_used && is_ever_used);
            prop_assert!((min..=max).contains(&limit.get()), "{limit:?}");
            prop_assert!(is_ever_used || limit.get() <= initial, "{limit:?}");
        }
    }
}
