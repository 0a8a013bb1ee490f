//! `races.rs` against the embedded server; the name of this file has `support` choose it.

#[path = "races.rs"]
mod races;
