//! The terminal while it is ours, and how it is given back however that ends.

use std::cell::Cell;
use std::io::{self, IsTerminal, Stdout};
use std::panic;
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::Query;
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor,
        event::{self, Event},
        execute,
        terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
    },
};

use crate::terminal::{
    feed::Feed,
    palette::Palette,
    screen::{Next, Screen},
    watch::Watch,
};

/// How long keys are waited for before the feed is looked at again.
const TICK: Duration = Duration::from_millis(50);
/// Ages are shown in seconds, so the screen is drawn so often even if nothing came.
const REDRAW: Duration = Duration::from_secs(1);
/// The most keys between two drawings: a paste of thousands must not keep the screen from changing.
const KEYS_MAX: usize = 64;

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// Standard output is a file or a pipe.
    #[error("standard output is no terminal")]
    NoTerminal,
    /// The terminal, or a thread, cannot be had or has gone.
    #[error("the terminal cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Shows what comes from `feed`, asked once per `every` (a second or less, or its frames are said to be late),
/// until the user quits or `is_over` says so.
///
/// # Errors
/// [`TerminalError`]. The terminal is given back in any case, also when this thread panics.
pub fn run(
    feed: impl Feed,
    query: Query,
    every: Duration,
    is_over: impl Fn() -> bool,
) -> Result<(), TerminalError> {
    if !io::stdout().is_terminal() {
        return Err(TerminalError::NoTerminal);
    }
    let mut screen = Screen::new(feed.place(), Palette::of_environment(), query);
    let mut asked = screen.query().clone();
    let watch = Watch::start(feed, asked.clone(), every)?;
    let mut session = Session::begin()?;
    let mut serial = 0;
    let mut drawn_at: Option<Instant> = None;
    while !is_over() {
        let mut has_changed = false;
        if let Some(reading) = watch.later_than(serial) {
            serial = reading.serial;
            screen.take(reading);
            has_changed = true;
        }
        let mut wait = TICK;
        for _ in 0..KEYS_MAX {
            if !event::poll(wait)? {
                break;
            }
            wait = Duration::ZERO;
            has_changed = true;
            if let Event::Key(key) = event::read()?
                && screen.key(key) == Next::Quit
            {
                return Ok(());
            }
        }
        if *screen.query() != asked {
            asked = screen.query().clone();
            watch.ask(asked.clone());
        }
        let now = Instant::now();
        let is_due = drawn_at.is_none_or(|at| now.duration_since(at) >= REDRAW);
        if has_changed || is_due {
            drawn_at = Some(now);
            session
                .terminal
                .draw(|frame| screen.draw(frame.area(), frame.buffer_mut(), now))?;
        }
    }
    Ok(())
}

thread_local! {
    /// Whether this thread draws: when it panics the terminal is given back before the message. When
    /// another one does, an actor's of the same process perhaps, the screen goes on.
    static DRAWS: Cell<bool> = const { Cell::new(false) };
}

/// The terminal in raw mode, on its second page.
struct Session {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Session {
    fn begin() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if DRAWS.get() {
                    give_back();
                }
                before(info);
            }));
        });
        terminal::enable_raw_mode()?;
        DRAWS.set(true);
        // From here on dropping it gives the terminal back.
        let session = Terminal::new(CrosstermBackend::new(io::stdout()))
            .map(|terminal| Self { terminal })
            .inspect_err(|_| give_back())?;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(session)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if DRAWS.get() {
            give_back();
        }
    }
}

/// Leaves the terminal as it was found. What fails has failed for good, and nobody can be told.
fn give_back() {
    DRAWS.set(false);
    let _ = terminal::disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
}
