//! What a scene came to, and how its own command shows it.
//!
//! ```text
//!   a scene's args ──▶ its runs ──▶ findings ──┬──▶ its own table, JSON and page
//!                                              └──▶ the report of all scenes
//! ```

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::{
    console::Console,
    interrupt::Interrupt,
    outputs::{OutputArgs, Outputs},
    section::Section,
};

/// What a scene came to.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The runs compared, for a terminal.
    pub(crate) table: String,
    /// What they show, in words.
    pub(crate) verdict: Vec<String>,
    /// The JSON: one for each call of the scene.
    pub(crate) records: Vec<Value>,
    pub(crate) section: Section,
    /// What failed, if something did.
    pub(crate) failure: Option<String>,
}

/// A record as JSON.
///
/// # Errors
/// None that a record could cause.
pub(crate) fn json(record: &impl Serialize) -> Result<Value> {
    serde_json::to_value(record).context("a record is no JSON")
}

/// Runs a scene, and shows what came of it as was asked for.
pub(crate) fn show(
    args: &OutputArgs,
    page_name: &str,
    interrupt: &Interrupt,
    run: impl FnOnce(&Console) -> Result<Findings>,
) -> Result<ExitCode> {
    let mut outputs = Outputs::open(args, page_name)?;
    let console = Console::new(args.is_json_on_stdout());
    let findings = run(&console)?;
    console.result(&findings.table, &findings.verdict);
    for record in &findings.records {
        outputs.write_json(record)?;
    }
    outputs.write_page(|| findings.section.page())?;
    console.check().context("cannot write the results")?;
    match findings.failure {
        Some(failure) => anyhow::bail!("{failure}"),
        None => Ok(interrupt.exit_code()),
    }
}
