//! The report as JSON. The shape is fixed: others read it.

use serde::Serialize;
use serde_json::Value;

use super::{Machine, Report, State};
use crate::section::Headline;

/// All scenes.
#[derive(Debug, Serialize)]
pub(super) struct Record<'a> {
    scene: &'static str,
    version: &'static str,
    seconds: f64,
    machine: &'a Machine,
    /// Each scene's own record; one that was called several times has several.
    scenes: Vec<&'a Value>,
    /// How each ended, also those without a record.
    endings: Vec<Ending<'a>>,
}

#[derive(Debug, Serialize)]
struct Ending<'a> {
    scene: &'static str,
    ok: bool,
    seconds: f64,
    /// What failed.
    error: Option<&'a str>,
    /// The failure and the cure that it shows.
    headline: Option<&'a Headline>,
}

impl<'a> Record<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let findings = report.parts.iter().flat_map(|part| &part.findings);
        let endings = report.parts.iter().map(|part| Ending {
            scene: part.scene.name(),
            ok: part.state() == State::Ok,
            seconds: part.seconds,
            error: part.failure.as_deref(),
            headline: part.findings.as_ref().map(|it| &it.section.headline),
        });
        Self {
            scene: "all",
            version: env!("CARGO_PKG_VERSION"),
            seconds: report.seconds,
            machine: &report.machine,
            scenes: findings.flat_map(|it| &it.records).collect(),
            endings: endings.collect(),
        }
    }
}
