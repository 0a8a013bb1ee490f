//! Without the feature the same calls say that they cannot.
#![cfg(all(not(feature = "stacks"), not(loom)))]

use std::time::Duration;

use freeboard_sched::{StackError, StackTarget};

#[test]
fn without_the_feature_a_capture_is_not_supported() {
    let captured = StackTarget::current().capture(Duration::from_secs(1));
    assert!(
        matches!(captured, Err(StackError::NotSupported)),
        "{captured:?}"
    );
}
