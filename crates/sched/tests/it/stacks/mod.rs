//! Call stacks of other threads, with and without the feature.

#[cfg(all(
    feature = "stacks",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod supported;

#[test]
#[cfg(not(feature = "stacks"))]
fn without_the_feature_a_capture_is_not_supported() {
    use freeboard_sched::{StackError, StackTarget};

    let captured = StackTarget::current().capture(std::time::Duration::from_secs(1));
    assert!(
        matches!(captured, Err(StackError::NotSupported)),
        "{captured:?}"
    );
}
