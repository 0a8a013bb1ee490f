//! The tests of `freeboard-test-servers`, in one binary.

#![cfg(unix)]

#[cfg(feature = "browser")]
mod browser;
mod servers;
