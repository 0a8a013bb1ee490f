//! The browser does what it is told, and tells what it sees.
use freeboard_test_servers::{Browser, BrowserError};
use serde_json::json;

#[test]
fn a_browser_clicks_types_runs_and_listens() {
    let browser = Browser::start().unwrap_or_else(|error| panic!("{error}"));
    let page = "<title>A page</title><input><button onclick='console.warn(`clicked`)'>B</button>";
    browser.open(&format!("data:text/html,{page}")).unwrap();
    assert_eq!(browser.run("return document.title").unwrap(), "A page");
    browser.click("input").unwrap();
    browser.press("ab\u{e003}c").unwrap();
    let typed = browser.run("return document.querySelector('input').value");
    assert_eq!(typed.unwrap(), "ac");
    assert_eq!(browser.console().unwrap(), []);
    browser.click("button").unwrap();
    let [(level, text)] = &browser.console().unwrap()[..] else {
        panic!("one line was written");
    };
    assert!(
        level == "WARNING" && text.contains("clicked"),
        "{level} {text}"
    );
    let size = json!({ "width": 320, "height": 200, "deviceScaleFactor": 1, "mobile": false });
    let set = browser.devtools("Emulation.setDeviceMetricsOverride", &size);
    set.unwrap();
    assert_eq!(browser.run("return innerWidth").unwrap(), 320);
    assert!(browser.screenshot().unwrap().starts_with(b"\x89PNG"));
    let thrown = browser.run("throw new Error('on purpose')").unwrap_err();
    assert!(matches!(thrown, BrowserError::Command(_)));
    assert!(matches!(
        browser.click("none"),
        Err(BrowserError::Command(_))
    ));
}
