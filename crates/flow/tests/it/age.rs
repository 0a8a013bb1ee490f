//! Shedding by age: the two laws in a simulated service, and their properties.
//!
//! The service takes 200 us a request, an answer has a value for 50 ms, and requests come in an open loop (a seeded
//! Poisson process). Time is virtual. `cargo test -p freeboard-flow age -- --nocapture` prints the table of
//! ARCHITECTURE.md.

use std::{collections::VecDeque, time::Duration};

use freeboard_flow::{AgeLaw, CoDel, LaneConfig, Overload, ShedReason, random};
use proptest::prelude::*;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const SERVICE_NS: u64 = 200 * US;
const DEADLINE_NS: u64 = 50 * MS;
const TARGET_NS: u64 = 10 * MS;
const INTERVAL_NS: u64 = 50 * MS;
const LOAD_NS: u64 = 2_000 * MS;

/// Decides at dequeue, by the wait and the time, whether the message is shed.
type Law = Box<dyn FnMut(u64, u64) -> bool>;

/// The control law of RFC 8289, section 5: one drop at first, then one after each `interval / sqrt(count)`.
fn rfc_8289() -> Law {
    let (mut first_above_ns, mut is_dropping, mut next_ns, mut count, mut last_count) =
        (0_u64, false, 0_u64, 0_u64, 0_u64);
    let control =
        |at_ns: u64, count: u64| at_ns + (INTERVAL_NS as f64 / (count as f64).sqrt()) as u64;
    Box::new(move |waited_ns, now_ns| {
        if waited_ns < TARGET_NS {
            (first_above_ns, is_dropping) = (0, false);
            return false;
        }
        if first_above_ns == 0 {
            first_above_ns = now_ns + INTERVAL_NS;
            return false;
        }
        if is_dropping {
            if now_ns < next_ns {
                return false;
            }
            count += 1;
            next_ns = control(next_ns, count);
            return true;
        }
        if now_ns < first_above_ns {
            return false;
        }
        is_dropping = true;
        let delta = count - last_count;
        let is_recent = now_ns.saturating_sub(next_ns) < 16 * INTERVAL_NS;
        count = if delta > 1 && is_recent { delta } else { 1 };
        last_count = count;
        next_ns = control(now_ns, count);
        true
    })
}

fn slough() -> Law {
    let mut codel = CoDel::new(TARGET_NS, INTERVAL_NS);
    Box::new(move |waited_ns, now_ns| codel.sheds(waited_ns, now_ns))
}

fn no_law() -> Law {
    Box::new(|_, _| false)
}

struct Outcome {
    /// Answers in time over the capacity.
    goodput: f64,
    p99_ms: f64,
    depth_max: usize,
}

/// The service under this many times its capacity.
fn simulate(factor: f64, bound: usize, mut sheds: Law) -> Outcome {
    let mut turn = 0;
    let mut gap_ns = || {
        turn += 1;
        let share = ((random::number(7, turn) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-share.ln() * SERVICE_NS as f64 / factor) as u64
    };
    let (mut due_ns, mut now_ns, mut depth_max) = (gap_ns(), 0, 0);
    let (mut queue, mut answers) = (VecDeque::new(), Vec::new());
    while now_ns < LOAD_NS {
        while due_ns <= now_ns {
            if queue.len() < bound {
                queue.push_back(due_ns);
            }
            due_ns += gap_ns();
        }
        // Of the second half: the first shows how the law sets in.
        let is_measured = now_ns > LOAD_NS / 2;
        if is_measured {
            depth_max = depth_max.max(queue.len());
        }
        let Some(arrived_ns) = queue.pop_front() else {
            now_ns = due_ns;
            continue;
        };
        // An expired request is not handled; that costs no time, as a request that is shed.
        if sheds(now_ns - arrived_ns, now_ns) || now_ns - arrived_ns >= DEADLINE_NS {
            continue;
        }
        now_ns += SERVICE_NS;
        if is_measured {
            answers.push(now_ns - arrived_ns);
        }
    }
    answers.sort_unstable();
    let in_time = answers.iter().filter(|it| **it <= DEADLINE_NS).count();
    let p99_ns = answers
        .get(answers.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    Outcome {
        goodput: in_time as f64 * SERVICE_NS as f64 / (LOAD_NS / 2) as f64,
        p99_ms: p99_ns as f64 / MS as f64,
        depth_max,
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the table of ARCHITECTURE.md")]
fn the_slough_law_keeps_goodput_in_an_open_loop_where_the_laws_of_flows_do_not() {
    const BOUND: usize = 65_536;
    for factor in [1.0, 1.5, 2.0, 5.0, 10.0] {
        let rows = [
            ("no law", no_law()),
            ("RFC 8289", rfc_8289()),
            ("slough", slough()),
        ];
        let [none, rfc, slough] = rows.map(|(name, law)| {
            let it = simulate(factor, BOUND, law);
            println!(
                "{factor:>4} x  {name:<9} goodput {:.3}  p99 {:>6.2} ms  depth {:>6}",
                it.goodput, it.p99_ms, it.depth_max
            );
            it
        });
        assert!(slough.goodput >= 0.95 * factor.min(1.0), "{factor} x");
        // A message that waited just twice the target, and its handling.
        assert!(slough.p99_ms <= 25.0, "{factor} x: {} ms", slough.p99_ms);
        if factor >= 1.5 {
            assert!(none.goodput < 0.5 && rfc.goodput < 0.5, "{factor} x");
        }
        if factor >= 5.0 {
            // Its queue holds the arrivals of an interval and of two targets, whatever the bound.
            assert!(slough.depth_max < rfc.depth_max / 2, "{factor} x");
        }
    }
}

fn law(overload: Overload) -> AgeLaw {
    LaneConfig::bounded(8)
        .overload(overload)
        .age_law()
        .expect("a law")
}

#[test]
fn a_maximum_age_sheds_what_is_older_and_nothing_else() {
    let mut law = law(Overload::MaxAge(Duration::from_nanos(100)));
    for (waited, wanted) in [(0, None), (100, None), (101, Some(ShedReason::TooOld))] {
        assert_eq!(law.judge(waited, 1_000), wanted, "{waited}");
    }
    assert!(!law.is_overloaded());
    assert_eq!(LaneConfig::bounded(8).age_law(), None);
}

#[test]
fn handlers_longer_than_an_interval_shed_too() {
    let mut codel = CoDel::new(5, 10);
    assert!(!codel.sheds(100, 1_000));
    assert!(codel.sheds(100, 2_000));
}

#[test]
fn an_old_overload_sheds_nothing_that_did_not_wait() {
    let mut codel = CoDel::new(5, 10);
    for now in (0..100).step_by(5) {
        let _ = codel.sheds(50, now);
    }
    assert!(codel.is_overloaded());
    // After a day.
    assert!(!codel.sheds(3, 86_400_000_000_000));
    assert!(!codel.is_overloaded());
}

proptest! {
    /// Against the definition, which looks at all waits.
    #[test]
    fn a_message_is_shed_only_in_a_standing_queue(
        steps in prop::collection::vec((0_u64..40, 0_u64..30), 1..200),
    ) {
        const TARGET: u64 = 10;
        const INTERVAL: u64 = 50;
        let mut law = law(Overload::CoDel {
            target: Duration::from_nanos(TARGET),
            interval: Duration::from_nanos(INTERVAL),
        });
        let (mut now, mut seen) = (0, Vec::new());
        for (waited, pause) in steps {
            now += pause;
            seen.push((now, waited));
            if let Some(reason) = law.judge(waited, now) {
                prop_assert_eq!(reason, ShedReason::CoDel);
                prop_assert!(waited > 2 * TARGET);
                // Every message of at least an interval, this one included, waited longer than the target.
                let short = seen.iter().rposition(|(_, waited)| *waited <= TARGET);
                let begun = seen.get(short.map_or(0, |it| it + 1)).map_or(now, |it| it.0);
                prop_assert!(now - begun >= INTERVAL);
                prop_assert!(law.is_overloaded());
            }
        }
    }

    /// A queue that stands for two intervals is found, whatever the times between its messages.
    #[test]
    fn a_standing_queue_is_found_within_two_intervals(
        pauses in prop::collection::vec(1_u64..=50, 1..50),
    ) {
        let mut codel = CoDel::new(10, 50);
        let mut now = 1_000;
        for pause in pauses {
            let sheds = codel.sheds(25, now);
            prop_assert!(sheds || now - 1_000 <= 100, "at {now}");
            now += pause;
        }
    }
}
