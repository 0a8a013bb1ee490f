//! `ways.rs` against the embedded server; the name of this file has `support` choose it.

#[path = "ways.rs"]
mod ways;
