//! A browser that a test looks through: Chromium without a window, with a profile of its own.
//!
//! ```text
//!   Browser ──WebDriver──▶ its driver ──a pipe──▶ Chromium
//! ```
//!
//! Both are in one process group, which is killed however we ended, and Chromium ends with the pipe.

use std::fmt;

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

use crate::{chromium::chromium, error::ServerError, server::Server};

/// A browser with one page. Dropping it ends it.
pub struct Browser {
    runtime: Runtime,
    client: Client,
    _driver: Server,
}

/// Why a browser did not do what it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// Its driver does not run.
    #[error(transparent)]
    Driver(#[from] ServerError),
    /// The browser does not start.
    #[error("Chromium cannot be started: {0}")]
    Start(Box<NewSessionError>),
    /// It did not do one thing.
    #[error("Chromium: {0}")]
    Command(Box<CmdError>),
    /// The system refused something.
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
    /// Starts one, with an empty page.
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
                // It shows pages of ours alone, and as root, or in a container, it could not have one.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                // Nothing is looked up elsewhere.
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

    /// Opens a page, and waits until it is loaded.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn open(&self, address: &str) -> Result<(), BrowserError> {
        Ok(self.runtime.block_on(self.client.goto(address))?)
    }

    /// What the body of a function returns that is run in the page.
    ///
    /// # Errors
    /// [`BrowserError`]: it threw something.
    pub fn run(&self, script: &str) -> Result<Value, BrowserError> {
        let run = self.client.execute(script, Vec::new());
        Ok(self.runtime.block_on(run)?)
    }

    /// Clicks on the first element that a CSS selector finds.
    ///
    /// # Errors
    /// [`BrowserError`]: there is none, or something lies over it.
    pub fn click(&self, selector: &str) -> Result<(), BrowserError> {
        let click = async {
            let element = self.client.find(Locator::Css(selector)).await?;
            element.click().await
        };
        Ok(self.runtime.block_on(click)?)
    }

    /// Presses keys, one after the other, wherever the focus is. Keys without a character are those of
    /// WebDriver, such as `\u{e00c}` for Escape.
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

    /// Carries out a command of the DevTools protocol, such as `Emulation.setEmulatedMedia`.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, BrowserError> {
        let body = json!({ "cmd": command, "params": parameters });
        self.issue("goog/cdp/execute", body)
    }

    /// What pages have written to the console since this was last asked: level and text.
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

    /// What is seen of the page, as PNG.
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
        // Its driver's end would be its own as well; so its profile is cleared away before.
        let _ = self.runtime.block_on(self.client.clone().close());
    }
}

/// A command that only Chromium's driver knows.
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
