//! Rebuilds the crate when the page changes, because cargo does not know the files that `include_dir` reads.

fn main() {
    println!("cargo::rerun-if-changed=page");
}
