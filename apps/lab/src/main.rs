//! lab
fn main() {}
