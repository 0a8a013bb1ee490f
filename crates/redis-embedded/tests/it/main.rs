//! Tests of the server over its socket, alone and against a real Redis of the same version.

mod attacks;
mod common;
mod contract;
mod limits;
mod simulated;
