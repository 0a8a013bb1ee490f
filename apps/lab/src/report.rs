//! The report: all scenes one after the other, and one page that shows what came of them.
//!
//! ```text
//!   scenes ──▶ one scene each ──▶ parts (findings, or what failed) ──┬──▶ index.html
//!                                                                 └──▶ JSON
//! ```
//!
//! A scene that fails, or panics, does not stop the others.

mod args;
mod machine;
mod page;
mod part;
mod record;
mod scene;

use std::{process::ExitCode, time::Instant};

use anyhow::{Context, Result};

use crate::{
    console::Console, figures::seconds, interrupt::Interrupt, outputs::Outputs, peers::Peers,
};
pub(crate) use args::AllArgs;
use machine::Machine;
use part::{Part, State};
use record::Record;

const PAGE_NAME: &str = "index.html";

/// All scenes and where they ran.
#[derive(Debug)]
struct Report {
    machine: Machine,
    command: String,
    parts: Vec<Part>,
    /// Which other runtimes ran.
    others: Vec<String>,
    /// Scenes that were asked for.
    planned: usize,
    seconds: f64,
}

impl Report {
    /// Those that failed, and how.
    fn failures(&self) -> Vec<(&'static str, &str)> {
        let failed = self.parts.iter();
        failed
            .filter_map(|it| Some((it.scene.name(), it.failure.as_deref()?)))
            .collect()
    }

    /// What became of them, in a sentence.
    fn summary(&self) -> String {
        let ok = self.parts.iter().filter(|it| it.state() == State::Ok);
        format!(
            "{} of {} scenes ok, in {}",
            ok.count(),
            self.planned,
            seconds(self.seconds)
        )
    }
}

/// Runs the scenes that were asked for, and writes the report.
pub(crate) fn show(args: &AllArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let scenes = args.scenes()?;
    let output_args = args.outputs();
    let mut outputs = Outputs::open(&output_args, PAGE_NAME)?;
    let console = Console::new(output_args.is_json_on_stdout());
    let says = console.clone();
    let _listening = interrupt.listen(move || {
        says.line("Ctrl-C: the report has what was finished (again: exit at once)");
    });
    let begun = Instant::now();
    let about = scenes.iter().map(|scene| scene.about_seconds()).sum();
    let mut done = 0;
    let mut parts = Vec::new();
    let peers = Peers::new(args.peers);
    console.start_whole(about);
    for (index, scene) in scenes.iter().enumerate() {
        if interrupt.has_come() {
            break;
        }
        let number = format!("[{}/{}] {}", index + 1, scenes.len(), scene.name());
        console.line(&format!("{number}: {}", scene.lead()));
        console.move_bar(done, number);
        let part = Part::play(*scene, args.size(), &console.quiet(), &peers, interrupt);
        part.lines().iter().for_each(|line| console.line(line));
        parts.push(part);
        done += scene.about_seconds();
    }
    console.end_bars();
    let report = Report {
        machine: Machine::look(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        parts,
        others: peers.summary(),
        planned: scenes.len(),
        seconds: begun.elapsed().as_secs_f64(),
    };
    outputs.write_json(&Record::of(&report))?;
    outputs.write_page(|| page::page(&report))?;
    console.line(&format!("\n{}", report.summary()));
    report.others.iter().for_each(|text| console.line(text));
    if let Some(path) = outputs.page_path() {
        console.line(&format!("the report: {}", path.display()));
    }
    console.check().context("cannot write the results")?;
    exit_code(&report, interrupt)
}

fn exit_code(report: &Report, interrupt: &Interrupt) -> Result<ExitCode> {
    let failures = report.failures();
    let texts: Vec<String> = failures
        .iter()
        .map(|(name, failure)| format!("{name}: {failure}"))
        .collect();
    match texts.as_slice() {
        [] => Ok(interrupt.exit_code()),
        texts => anyhow::bail!("failed: {}", texts.join("; ")),
    }
}
