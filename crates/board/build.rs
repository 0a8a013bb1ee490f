//! Has the crate built anew when the page has changed: what `include_dir` reads, cargo does not know of.

fn main() {
    println!("cargo::rerun-if-changed=page");
}
