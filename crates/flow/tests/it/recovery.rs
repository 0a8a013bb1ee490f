//! Credit, back-off and restart limits against plain models.

use freeboard_flow::{Backoff, ConfigError, Credit, RESTARTS_MAX, RestartHistory, RestartLimit};
use proptest::prelude::*;

proptest! {
    #[test]
    fn credit_never_exceeds_its_window(
        window in 0_u64..20,
        steps in prop::collection::vec((any::<bool>(), 0_u64..8), 0..200),
    ) {
        let mut credit = Credit::new(window);
        let mut outstanding = 0;
        for (takes, n) in steps {
            if takes {
                let fits = outstanding + n <= window;
                prop_assert_eq!(credit.try_take(n), fits);
                outstanding += if fits { n } else { 0 };
            } else {
                let n = n.min(outstanding);
                credit.give_back(n);
                outstanding -= n;
            }
            prop_assert_eq!(credit.outstanding(), outstanding);
            prop_assert_eq!(credit.available() + credit.outstanding(), window);
        }
    }

    #[test]
    fn delays_are_the_saturating_power(
        min_ns in any::<u64>(), max_ns in any::<u64>(), factor in 1_u32..10, attempt in 0_u32..100,
    ) {
        let (min_ns, max_ns) = (min_ns.min(max_ns), min_ns.max(max_ns));
        let backoff = Backoff { min_ns, max_ns, factor };
        prop_assert_eq!(backoff.validate(), Ok(()));
        let mut wanted = u128::from(min_ns);
        for _ in 0..attempt {
            wanted = (wanted * u128::from(factor)).min(u128::from(max_ns));
        }
        prop_assert_eq!(u128::from(backoff.delay_ns(attempt)), wanted);
    }

    #[test]
    fn jitter_shortens_by_half_at_most(attempt in any::<u32>(), jitter_ppm in 0_u32..=1_000_000) {
        let backoff = Backoff::default();
        let whole_ns = backoff.delay_ns(attempt);
        let delay_ns = backoff.delay_jittered_ns(attempt, jitter_ppm);
        prop_assert!((whole_ns / 2..=whole_ns).contains(&delay_ns));
        prop_assert_eq!(backoff.delay_jittered_ns(attempt, 0), whole_ns);
        prop_assert_eq!(backoff.delay_jittered_ns(attempt, 1_000_000), whole_ns - whole_ns / 2);
    }

    #[test]
    fn restarts_are_limited_in_every_window(
        max in 0_u32..5,
        within_ns in 0_u64..50,
        gaps_ns in prop::collection::vec(0_u64..30, 0..100),
    ) {
        let mut history = RestartHistory::new(RestartLimit { max, within_ns });
        let mut allowed: Vec<u64> = Vec::new();
        let mut now_ns = 0;
        for gap_ns in gaps_ns {
            now_ns += gap_ns;
            let recent = allowed.iter().filter(|&&at_ns| now_ns - at_ns <= within_ns).count();
            let wanted = recent < max as usize;
            prop_assert_eq!(history.record(now_ns), wanted);
            if wanted {
                allowed.push(now_ns);
            }
            prop_assert!(history.len() <= max as usize);
        }
    }
}

#[test]
#[should_panic(expected = "more credit given back than was taken")]
fn giving_back_what_was_not_taken_is_a_bug() {
    Credit::new(5).give_back(1);
}

#[test]
#[should_panic(expected = "jitter is above 1,000,000 ppm")]
fn jitter_above_the_whole_is_a_bug() {
    let _ = Backoff::default().delay_jittered_ns(0, 1_000_001);
}

#[test]
fn credit_cannot_be_overdrawn_by_overflow() {
    let mut credit = Credit::new(u64::MAX);
    assert!(credit.try_take(u64::MAX));
    assert!(!credit.try_take(u64::MAX));
}

#[test]
fn back_offs_that_cannot_hold_say_why() {
    let error = |min_ns, max_ns, factor| {
        let backoff = Backoff {
            min_ns,
            max_ns,
            factor,
        };
        backoff.validate().unwrap_err().to_string()
    };
    assert_eq!(
        error(2, 1, 2),
        "back-off minimum is 2 ns, it must be at most the maximum 1 ns"
    );
    assert_eq!(
        error(1, 2, 0),
        "back-off factor is 0, it must be at least 1"
    );
}

#[test]
fn a_clock_that_went_back_allows_no_extra_restart() {
    let mut history = RestartHistory::new(RestartLimit {
        max: 1,
        within_ns: 10,
    });
    assert!(history.record(100));
    assert!(!history.record(5));
    assert!(history.record(111));
}

#[test]
fn an_absurd_limit_keeps_memory_bounded() {
    let limit = RestartLimit {
        max: u32::MAX,
        within_ns: u64::MAX,
    };
    assert_eq!(
        limit.validate(),
        Err(ConfigError::RestartsTooMany { max: u32::MAX })
    );
    let limit_of_no_time = RestartLimit {
        max: 0,
        within_ns: 0,
    };
    assert_eq!(
        limit_of_no_time.validate(),
        Err(ConfigError::RestartTimeZero)
    );
    let mut history = RestartHistory::new(limit);
    assert!(history.is_empty());
    let allowed = (0..5_000).filter(|&now_ns| history.record(now_ns)).count();
    assert_eq!(
        (allowed, history.len()),
        (RESTARTS_MAX as usize, RESTARTS_MAX as usize)
    );
}
