//! A browser for tests: Chromium without a window, with a profile of its own.
//!
//! ```text
//!   Browser ──WebDriver──▶ its driver ──a pipe──▶ Chromium
//! ```
//!
//! Both are in one process group, which is killed however the test ends, and Chromium ends with the pipe.

use std::{fmt, path::Path, process::Command};

use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource, KeyAction, KeyActions},
    error::{CmdError, NewSessionError},
    wd::WebDriverCompatibleCommand,
};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use url::{ParseError, Url};

use crate::{
    guarded::is_on_path,
    server::{Recipe, Server, ServerError},
};

/// A browser with one page. Dropping it closes it.
pub struct Browser {
    runtime: Runtime,
    client: Client,
    _driver: Server,
}

/// A browser or one of its commands failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// Its driver does not start.
    #[error(transparent)]
    Driver(#[from] ServerError),
    /// The browser does not start.
    #[error("Chromium cannot be started: {0}")]
    Start(Box<NewSessionError>),
    /// A command failed.
    #[error("Chromium: {0}")]
    Command(Box<CmdError>),
    /// The operating system reported an error.
    #[error("Chromium's client cannot be started: {0}")]
    Io(#[from] std::io::Error),
}

impl From<NewSessionError> for BrowserError {
    fn from(error: NewSessionError) -> Self {
        Self::Start(Box::new(error))
    }
}

impl From<CmdError> for BrowserError {
    fn from(error: CmdError) -> Self {
        Self::Command(Box::new(error))
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Browser").finish_non_exhaustive()
    }
}

impl Browser {
    /// Starts a browser with an empty page.
    ///
    /// # Errors
    /// [`BrowserError`], for example because it is not installed.
    pub fn start() -> Result<Self, BrowserError> {
        let driver = chromium()?;
        let options = json!({
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new",
                "--remote-debugging-pipe",
                // It shows only our own pages, and a sandbox is impossible as root or in a container.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                // No network access of its own.
                "--disable-background-networking",
                "--no-first-run",
            ] },
        });
        let Value::Object(capabilities) = options else {
            unreachable!("it is written as an object")
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities)
                .connect(&format!("http://{}", driver.address()))
                .await
        })?;
        Ok(Self {
            runtime,
            client,
            _driver: driver,
        })
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn open(&self, address: &str) -> Result<(), BrowserError> {
        Ok(self.runtime.block_on(self.client.goto(address))?)
    }

    /// Runs the body of a function in the page and returns its result.
    ///
    /// # Errors
    /// [`BrowserError`]: it threw something.
    pub fn run(&self, script: &str) -> Result<Value, BrowserError> {
        let run = self.client.execute(script, Vec::new());
        Ok(self.runtime.block_on(run)?)
    }

    /// Clicks on the first element that matches a CSS selector.
    ///
    /// # Errors
    /// [`BrowserError`]: no element matches, or another one covers it.
    pub fn click(&self, selector: &str) -> Result<(), BrowserError> {
        let click = async {
            let element = self.client.find(Locator::Css(selector)).await?;
            element.click().await
        };
        Ok(self.runtime.block_on(click)?)
    }

    /// Presses keys, one after another, at the focus. Keys without a character are those of WebDriver, such as
    /// `\u{e00c}` for Escape.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn press(&self, keys: &str) -> Result<(), BrowserError> {
        let actions = KeyActions::new("keys".to_owned());
        let actions = keys.chars().fold(actions, |actions, value| {
            let down = actions.then(KeyAction::Down { value });
            down.then(KeyAction::Up { value })
        });
        let press = self.client.perform_actions(actions);
        Ok(self.runtime.block_on(press)?)
    }

    /// Runs a command of the DevTools protocol, such as `Emulation.setEmulatedMedia`.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, BrowserError> {
        let body = json!({ "cmd": command, "params": parameters });
        self.issue("goog/cdp/execute", body)
    }

    /// The console messages of pages since the last call: level and text.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn console(&self) -> Result<Vec<(String, String)>, BrowserError> {
        let lines = self.issue("se/log", json!({ "type": "browser" }))?;
        let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let lines = lines.as_array().map(Vec::as_slice).unwrap_or_default();
        let pair = |line: &Value| (text(line, "level"), text(line, "message"));
        Ok(lines.iter().map(pair).collect())
    }

    /// A PNG picture of the visible part of the page.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn screenshot(&self) -> Result<Vec<u8>, BrowserError> {
        Ok(self.runtime.block_on(self.client.screenshot())?)
    }

    fn issue(&self, path: &'static str, body: Value) -> Result<Value, BrowserError> {
        let command = Extension { path, body };
        Ok(self.runtime.block_on(self.client.issue_cmd(command))?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Killing the driver would kill the browser too; closing it first lets it remove its profile.
        let _ = self.runtime.block_on(self.client.clone().close());
    }
}

/// A command specific to Chromium's driver.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{}", self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

const CHROMIUM_PACKAGES: &str = "chromium chromium-driver";
/// Starts Chromium's driver, which starts a Chromium for each session: `http://127.0.0.1:PORT` speaks WebDriver.
///
/// # Errors
/// [`ServerError`], for example because it is not installed, or Chromium is not.
fn chromium() -> Result<Server, ServerError> {
    if !is_on_path("chromium") {
        return Err(ServerError::Missing {
            name: "Chromium",
            packages: CHROMIUM_PACKAGES,
        });
    }
    Server::start(Recipe {
        name: "Chromium's driver",
        packages: CHROMIUM_PACKAGES,
        prepare: None,
        command: Box::new(chromium_command),
    })
}

fn chromium_command(folder: &Path, port: u16) -> Command {
    let mut command = Command::new("chromedriver");
    command
        .arg(format!("--port={port}"))
        // Profiles and caches are removed with its folder.
        .env("TMPDIR", folder)
        .env("HOME", folder);
    command
}
