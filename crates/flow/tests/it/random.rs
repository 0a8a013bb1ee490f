//! Random numbers that never change.

use freeboard_flow::random::{STEP, below, mix, number};
use proptest::prelude::*;

/// The first outputs of the reference splitmix64 from seed 1234567.
#[test]
fn numbers_are_those_of_splitmix64() {
    let numbers: [u64; 3] = std::array::from_fn(|turn| number(1_234_567, turn as u64));
    assert_eq!(
        numbers,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
}

proptest! {
    #[test]
    fn a_number_is_the_mix_of_its_seed_after_so_many_steps(seed: u64, turn in 0_u64..100) {
        let state = (0..=turn).fold(seed, |state, _| state.wrapping_add(STEP));
        prop_assert_eq!(number(seed, turn), mix(state));
    }

    #[test]
    fn brought_below_a_limit_it_stays_below(number: u64, limit in 1_usize..) {
        prop_assert!(below(number, limit) < limit);
        prop_assert_eq!(below(0, limit), 0);
        prop_assert_eq!(below(u64::MAX, limit), limit - 1);
    }
}
