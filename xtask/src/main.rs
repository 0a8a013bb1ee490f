//! The project's own commands, run as `cargo xtask <command>`.
//!
//! `test` runs all tests, `ci` everything that the build machine runs. `tidy` checks rules that clippy does not
//! know. `soak` repeats randomized tests for longer, or runs all servers together for hours. `fuzz` fuzzes the
//! parsers. `peers` compares Freeboard with other runtimes and writes the tables of docs/measurements. `scaling` computes the
//! tables of docs/scaling.md.

#![forbid(unsafe_code)]
// A command-line tool writes to the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cargo;
mod ci;
mod component;
mod deny;
mod fuzz;
mod loom;
mod peers;
mod sanitizer;
mod scaling;
mod screenshots;
mod soak;
mod step;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                      every test, with the programs it needs
  cargo xtask ci                        all checks of the build machine
  cargo xtask tidy                      the style rules alone
  cargo xtask soak --minutes 30         search longer for rare interleavings
  cargo xtask peers messaging --quick   a short side-by-side run
  cargo xtask peers flood --rounds 3 --only freeboard,beam
  cargo xtask peers all                 every suite at reduced size; the table of PERFORMANCE.md";

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Freeboard's own commands", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the programs that tests need, then run every test
    Test,
    /// Run all checks of the build machine: format, lints, dependencies, tidy, tests, soak, fuzz, loom, sanitizer, docs
    Ci,
    /// Check dependency floors, atomics, unsafe code, and sleeping or ignored tests
    Tidy,
    /// Take the screenshots of board and report for the README
    #[command(hide = true)]
    Screenshots(screenshots::Options),
    /// Repeat randomized tests with larger limits for a given time, or run all servers together
    Soak(soak::Options),
    /// Fuzz each parser of input from outside
    Fuzz(fuzz::Options),
    /// Compute how far each workload scales, and what limits it first
    Scaling,
    /// Measure the same work on Freeboard and on other runtimes, side by side
    #[command(after_help = peers::EXAMPLES)]
    Peers(peers::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test => test::run(),
        Command::Ci => ci::run(),
        Command::Tidy => tidy::run(),
        Command::Screenshots(options) => screenshots::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Fuzz(options) => fuzz::run(options.seconds, options.only.as_deref()),
        Command::Scaling => scaling::run(),
        Command::Peers(options) => peers::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
