//! The tests of `freeboard-net`, in one binary.

mod attacks;
mod common;
#[cfg(target_os = "linux")]
mod datagram;
mod faults;
mod fuzz_requests;
mod http;
mod lazy;
mod metrics;
mod pace;
mod proxy;
mod reading;
mod simulated;
mod slow_readers;
mod streaming;
mod tcp;
#[cfg(target_os = "linux")]
mod unix;
