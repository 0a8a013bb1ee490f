//! The page of a board in a browser.

use std::net::SocketAddr;

use freeboard_test_servers::Browser;
use serde_json::{Value, json};

use super::eventually;

/// Keys without a character, as WebDriver has them.
pub(crate) const ENTER: &str = "\u{e007}";
const DELETE: &str = "\u{e017}";
pub(crate) const ESCAPE: &str = "\u{e00c}";

/// Functions for the scripts of the tests.
const SHORT: &str = "
    const find = (name) => document.querySelector(`[data-test='${name}']`);
    const shown = (name) => find(name)?.checkVisibility() ?? false;
    const state = () => find('connection').dataset.state;
    const rows = () => [...document.querySelectorAll(\"tr[data-test^='row-']\")];
    const names = () => rows().map((row) => row.querySelector('button').textContent);
    const depths = () => rows().map((row) => Number(row.querySelector(\"[data-test='depth']\").dataset.value));
";

pub(crate) struct Page {
    pub(crate) browser: Browser,
}

impl Page {
    /// Opens it, and waits for the first frame.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let browser = Browser::start().unwrap_or_else(|error| panic!("{error}"));
        browser.open(&format!("http://{address}/")).unwrap();
        let page = Self { browser };
        page.shows("it is connected", "state() === 'live'");
        page
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&self, expression: &str) -> Value {
        let script = format!("{SHORT} return {expression};");
        self.browser.run(&script).unwrap()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn shows(&self, what: &str, expression: &str) {
        eventually(what, || self.value(expression) == json!(true));
    }

    #[track_caller]
    pub(crate) fn click(&self, name: &str) {
        self.browser
            .click(&format!("[data-test='{name}']"))
            .unwrap();
    }

    /// Clicks on a column's head.
    #[track_caller]
    pub(crate) fn sort(&self, column: &str) {
        self.browser
            .click(&format!("[data-test='sort-{column}'] button"))
            .unwrap();
    }

    #[track_caller]
    pub(crate) fn press(&self, keys: &str) {
        self.browser.press(keys).unwrap();
    }

    /// Replaces the filter.
    #[track_caller]
    pub(crate) fn filter(&self, text: &str) {
        self.value("find('filter').select()");
        self.press(&format!("{DELETE}{text}{ENTER}"));
    }

    /// Checks that the console has no new lines.
    #[track_caller]
    pub(crate) fn is_silent(&self) {
        assert_eq!(self.browser.console().unwrap(), []);
    }

    /// Emulates a screen of this size, with this theme.
    pub(crate) fn emulate(&self, width: u32, height: u32, theme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        let browser = &self.browser;
        browser
            .devtools("Emulation.setDeviceMetricsOverride", &size)
            .unwrap();
        let feature = json!({ "name": "prefers-color-scheme", "value": theme });
        let media = json!({ "features": [feature] });
        browser
            .devtools("Emulation.setEmulatedMedia", &media)
            .unwrap();
    }
}
