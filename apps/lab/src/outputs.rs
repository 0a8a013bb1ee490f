//! Where results go beside the console: JSON for programs, a page for people.
//!
//! Whether the files can be written is found out before the first run: a path that cannot be is bad usage,
//! and nobody wants to learn that afterwards. The last page stays until the new one is whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tempfile::NamedTempFile;

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

/// Where they go.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<Json>,
    /// The page.
    page: Option<PathBuf>,
}

#[derive(Debug)]
enum Json {
    Stdout,
    /// A file, replaced in one step.
    File(PathBuf),
    /// A device or a pipe, written to in place.
    Device(File),
}

impl Outputs {
    /// Prepares what was asked for; the page gets this name in its folder.
    ///
    /// # Errors
    /// [`Usage`] for a path that cannot be written.
    pub(crate) fn open(args: &OutputArgs, page_name: &str) -> Result<Self> {
        let json = match &args.json {
            None => None,
            Some(_) if args.is_json_on_stdout() => Some(Json::Stdout),
            Some(path) => Some(json_file(path).map_err(|error| unwritable(path, &error))?),
        };
        let page = match &args.report {
            None => None,
            Some(folder) => {
                fs::create_dir_all(folder).map_err(|error| {
                    Usage::new(format!("cannot make {}: {error}", folder.display()))
                })?;
                let path = folder.join(page_name);
                check_page(folder, &path).map_err(|error| unwritable(&path, &error))?;
                Some(path)
            }
        };
        Ok(Self { json, page })
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
            Json::File(path) => {
                replace(path, &text).with_context(|| format!("cannot write {}", path.display()))
            }
            Json::Device(file) => file
                .write_all(text.as_bytes())
                .context("cannot write the JSON file"),
        }
    }

    /// Writes the page, where that was asked for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_page(&self, page: impl FnOnce() -> String) -> Result<()> {
        match &self.page {
            None => Ok(()),
            Some(path) => {
                replace(path, &page()).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// Where the page is.
    pub(crate) fn page_path(&self) -> Option<&Path> {
        self.page.as_deref()
    }
}

/// The place for JSON. An existing file stays until the new one is written.
fn json_file(path: &Path) -> io::Result<Json> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Ok(Json::Device(OpenOptions::new().write(true).open(path)?))
        }
        _ => {
            check_page(folder_of(path), path)?;
            Ok(Json::File(path.to_owned()))
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn unwritable(path: &Path, error: &io::Error) -> Usage {
    Usage::new(format!("cannot write {}: {error}", path.display()))
}

/// Whether a file can be put there, where nothing is changed yet.
fn check_page(folder: &Path, path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => temporary(folder).map(drop),
    }
}

/// Puts a text there in one step.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = temporary(folder_of(path))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// A file beside the other one, with the permissions of any other.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".freeboard-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
