//! Where results go beside the console: JSON for programs, a page for people.
//!
//! The files are opened before the first run: a path that cannot be written is bad usage, and nobody
//! wants to learn that afterwards.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::{console, usage::Usage};

/// The knobs that all scenes share.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Write the results as JSON; - is standard output, to which nothing else goes then
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// Write an HTML page with plots into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl OutputArgs {
    /// No page, and the JSON on standard output or nowhere.
    pub(crate) fn json_on_stdout(is_json: bool) -> Self {
        Self {
            json: is_json.then(|| PathBuf::from("-")),
            report: None,
        }
    }

    /// A page in this folder, whether it was named or not.
    pub(crate) fn with_report(json: Option<PathBuf>, report: PathBuf) -> Self {
        Self {
            json,
            report: Some(report),
        }
    }

    /// Whether the JSON goes to standard output, and nothing else may.
    pub(crate) fn is_json_on_stdout(&self) -> bool {
        self.json
            .as_ref()
            .is_some_and(|path| path.as_os_str() == "-")
    }
}

/// The opened files.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<Json>,
    report: Option<(File, PathBuf)>,
}

#[derive(Debug)]
enum Json {
    Stdout,
    File(File),
}

impl Outputs {
    /// Opens what was asked for; the page gets this name in its folder.
    ///
    /// # Errors
    /// [`Usage`] for a path that cannot be written.
    pub(crate) fn open(args: &OutputArgs, page_name: &str) -> Result<Self> {
        let json = match &args.json {
            None => None,
            Some(_) if args.is_json_on_stdout() => Some(Json::Stdout),
            Some(path) => Some(Json::File(create(path)?)),
        };
        let report = match &args.report {
            None => None,
            Some(folder) => {
                fs::create_dir_all(folder).map_err(|error| {
                    Usage::new(format!("cannot make {}: {error}", folder.display()))
                })?;
                let path = folder.join(page_name);
                Some((create(&path)?, path))
            }
        };
        Ok(Self { json, report })
    }

    /// Writes the record, where that was asked for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_json(&mut self, record: &impl Serialize) -> Result<()> {
        let Some(json) = &mut self.json else {
            return Ok(());
        };
        let mut text = serde_json::to_string_pretty(record)?;
        text.push('\n');
        match json {
            Json::Stdout => console::write_stdout(&text).context("cannot write to standard output"),
            Json::File(file) => file
                .write_all(text.as_bytes())
                .context("cannot write the JSON file"),
        }
    }

    /// Writes the page, where that was asked for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_page(&mut self, page: impl FnOnce() -> String) -> Result<()> {
        match &mut self.report {
            None => Ok(()),
            Some((file, path)) => file
                .write_all(page().as_bytes())
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Where the page is.
    pub(crate) fn page_path(&self) -> Option<&Path> {
        self.report.as_ref().map(|(_, path)| path.as_path())
    }
}

fn create(path: &Path) -> Result<File, Usage> {
    File::create(path)
        .map_err(|error| Usage::new(format!("cannot write {}: {error}", path.display())))
}
