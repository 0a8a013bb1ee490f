//! `cargo xtask test`: every test of the workspace, with the programs that some of them need.
//!
//! All parts run even if one fails; the table at the end shows failed and skipped parts.

use anyhow::Result;

use crate::cargo::Cargo;
use crate::component::{self, Availability};
use crate::peers::beam;
use crate::step::Steps;
use crate::workspace;

/// Archives, the back ends of the fetcher, NATS and the simulator, which the first build leaves out.
const HEAVY: [&str; 2] = [
    "--features",
    "freeboard/sim,freeboard-lab/archive,freeboard-lab/nats,freeboard-lab/real-backends,freeboard-lab/sim",
];

pub(crate) fn run() -> Result<()> {
    let root = workspace::root()?;
    let mut steps = Steps::default();

    for component in component::NEEDED_BY_TESTS {
        let name = format!("component {}", component.name);
        match component.provide() {
            Availability::Present => println!("{name}: present"),
            Availability::Installed => {
                println!("{name}: installed {}", component.packages.join(" "))
            }
            Availability::Missing(reason) => println!("{name}: missing: {reason}"),
        }
    }

    // `finish` reports failures, so that one failing part does not hide the next.
    let _ = steps.run("tests", || {
        Cargo::new(["test", "--workspace", "--all-targets", "--no-fail-fast"])
            .with_arguments(HEAVY)
            .run(&root)
    });
    let _ = steps.run("tests of call stacks", || {
        Cargo::new(["test", "-p", "freeboard-sched", "-p", "freeboard-actor"])
            .with_arguments(["--features", "freeboard-actor/stacks", "--no-fail-fast"])
            .with_arguments(["--test", "it", "--test", "stacks_with_a_handler"])
            .with_arguments(["--", "stacks", "long_runs", "handler_that_was_there_before"])
            .run(&root)
    });
    let _ = steps.run("tests of spans", || {
        Cargo::new(["test", "-p", "freeboard-actor", "--no-fail-fast"])
            .with_arguments(["--features", "freeboard-actor/spans"])
            .with_arguments(["--test", "spans", "--test", "panicking_spans"])
            .run(&root)
    });
    let _ = steps.run("doctests", || {
        Cargo::new(["test", "--workspace", "--doc", "--no-fail-fast"])
            .with_arguments(HEAVY)
            .run(&root)
    });
    match component::BEAM.provide() {
        Availability::Missing(reason) => steps.skip("BEAM smoke test", reason),
        _ => {
            let _ = steps.run("BEAM smoke test", || beam::smoke_test(&root));
        }
    }
    steps.finish("cargo xtask test")
}
