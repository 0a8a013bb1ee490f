//! The report's command line.

use std::path::PathBuf;

use clap::Args;

use super::scene::{Scene, Size};
use crate::{outputs::OutputArgs, peers::PeerArgs, usage::Usage};

/// Knobs of `freeboard lab all`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AllArgs {
    /// Only these scenes, as flood,fetch
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    only: Vec<Scene>,

    /// All scenes but these
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    skip: Vec<Scene>,

    /// Write the page into this folder, as index.html
    #[arg(long, value_name = "DIR", default_value = "freeboard-report")]
    report: PathBuf,

    /// Write the results of all scenes as JSON; - is standard output, to which nothing else goes then
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    #[command(flatten)]
    pub(super) peers: PeerArgs,

    /// Runs that show that everything works, and nothing else
    #[arg(long, hide = true)]
    quick: bool,
}

impl AllArgs {
    /// The scenes, in the order in which they run.
    ///
    /// # Errors
    /// [`Usage`] if there is none.
    pub(super) fn scenes(&self) -> Result<Vec<Scene>, Usage> {
        let is_asked = |scene: &Scene| {
            (self.only.is_empty() || self.only.contains(scene)) && !self.skip.contains(scene)
        };
        let scenes: Vec<Scene> = Scene::ALL.into_iter().filter(is_asked).collect();
        if scenes.is_empty() {
            return Err(Usage::new("--only and --skip leave no scene to run"));
        }
        Ok(scenes)
    }

    pub(super) const fn size(&self) -> Size {
        if self.quick { Size::Quick } else { Size::Full }
    }

    pub(super) fn outputs(&self) -> OutputArgs {
        OutputArgs::with_report(self.json.clone(), self.report.clone())
    }
}
