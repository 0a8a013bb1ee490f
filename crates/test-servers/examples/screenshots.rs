//! Takes pictures of a board, and of a report beside it: `screenshots FOLDER URL SECONDS [REPORT]`.
//!
//! `cargo xtask screenshots` starts the board, and this.
#![allow(clippy::print_stdout, reason = "this is a command-line tool")]

use std::{env, error::Error, fs, path::Path, thread, time::Duration};

use freeboard_test_servers::Browser;
use serde_json::json;

const THEMES: [&str; 2] = ["light", "dark"];
const WIDTH: u32 = 1_280;
const HEIGHT: u32 = 1_000;
const PHONE_WIDTH: u32 = 360;
const PHONE_HEIGHT: u32 = 780;
const PLOT_WIDTH: u32 = 760;
const PLOT_HEIGHT: u32 = 560;

/// The time for the page to redraw after a change of theme or width.
const SETTLES: Duration = Duration::from_secs(2);

/// The largest picture that the repository should hold.
const PICTURE_BYTES_MAX: usize = 300 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (folder, address, seconds, report) = match arguments.as_slice() {
        [folder, address, seconds] => (folder, address, seconds, None),
        [folder, address, seconds, report] => (folder, address, seconds, Some(report)),
        _ => return Err("usage: screenshots FOLDER URL SECONDS [REPORT]".into()),
    };
    fs::create_dir_all(folder)?;
    let folder = Path::new(folder);
    let browser = Browser::start()?;
    browser.open(address)?;
    thread::sleep(Duration::from_secs(seconds.parse()?));
    for theme in THEMES {
        let path = folder.join(format!("board-{theme}.png"));
        take(&browser, &path, theme, WIDTH, HEIGHT)?;
    }
    let path = folder.join("board-phone.png");
    take(&browser, &path, "light", PHONE_WIDTH, PHONE_HEIGHT)?;
    if let Some(report) = report {
        browser.open(&format!("file://{report}"))?;
        for theme in THEMES {
            let path = folder.join(format!("report-{theme}.png"));
            take(&browser, &path, theme, WIDTH, HEIGHT)?;
        }
        // The first plot of the report alone.
        browser.run("document.body.replaceChildren(document.querySelector('#goodput figure'))")?;
        for theme in THEMES {
            let path = folder.join(format!("goodput-{theme}.png"));
            take(&browser, &path, theme, PLOT_WIDTH, PLOT_HEIGHT)?;
        }
    }
    Ok(())
}

fn take(
    browser: &Browser,
    path: &Path,
    theme: &str,
    width: u32,
    height: u32,
) -> Result<(), Box<dyn Error>> {
    let size = json!({
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == PHONE_WIDTH,
    });
    browser.devtools("Emulation.setDeviceMetricsOverride", &size)?;
    let feature = json!({ "name": "prefers-color-scheme", "value": theme });
    browser.devtools(
        "Emulation.setEmulatedMedia",
        &json!({ "features": [feature] }),
    )?;
    thread::sleep(SETTLES);
    let picture = browser.screenshot()?;
    if picture.len() > PICTURE_BYTES_MAX {
        let kibibytes = picture.len() / 1024;
        return Err(format!("{} would have {kibibytes} KiB", path.display()).into());
    }
    fs::write(path, &picture)?;
    println!("{}: {} KiB", path.display(), picture.len() / 1024);
    Ok(())
}
