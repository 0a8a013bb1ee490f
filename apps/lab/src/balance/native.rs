//! The native call: code that keeps its worker until it returns.

use std::{hint::black_box, sync::Arc, thread, time::Duration};

use freeboard::meter::clock;
use md5::{Digest, Md5};

/// What each repetition calls.
#[derive(Debug, Clone)]
pub(crate) enum NativeCall {
    /// MD5 over these bytes.
    Md5(Arc<[u8]>),
    /// A real blocking call.
    Sleep(Duration),
}

impl NativeCall {
    /// MD5 over so many bytes.
    pub(crate) fn md5(bytes: usize) -> Self {
        // Not all the same, so that no page is a shared one of zeroes.
        Self::Md5((0..bytes).map(|index| index as u8).collect())
    }

    /// Calls it, then loops `spin` times around nothing. Returns the nanoseconds of the call.
    pub(crate) fn call(&self, spin: u64) -> u64 {
        let begun_ns = clock::now_ns();
        match self {
            Self::Md5(bytes) => {
                black_box(Md5::digest(bytes));
            }
            Self::Sleep(time) => thread::sleep(*time),
        }
        let native_ns = clock::now_ns().saturating_sub(begun_ns);
        for step in 0..spin {
            black_box(step);
        }
        native_ns
    }
}
