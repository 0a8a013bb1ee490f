//! The event loop on the terminal, and its restoration on every exit.

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

/// How long to wait for keys before checking the feed.
const TICK: Duration = Duration::from_millis(50);
/// The screen shows ages in seconds, so it is redrawn at least this often.
const REDRAW: Duration = Duration::from_secs(1);
/// The most keys between two redraws, so that a long paste does not block the screen.
const KEYS_MAX: usize = 64;

/// Why the terminal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// Standard output is a file or a pipe.
    #[error("standard output is not a terminal")]
    NoTerminal,
    /// The terminal or a thread failed.
    #[error("the terminal cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Shows the frames of `feed`, queried once per `every`, until the user quits or `is_over` returns true. With more
/// than a second, frames are reported as late.
///
/// # Errors
/// [`TerminalError`]. The terminal is restored in any case, also when this thread panics.
pub fn run(
    feed: impl Feed,
    query: Query,
    every: Duration,
    is_over: impl Fn() -> bool,
) -> Result<(), TerminalError> {
    if !io::stdout().is_terminal() {
        return Err(TerminalError::NoTerminal);
    }
    let mut screen = Screen::new(feed.origin(), Palette::of_environment(), query);
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
    /// Whether this thread draws. If it panics, the terminal is restored before the message. If another thread
    /// panics, such as an actor's, the screen continues.
    static DRAWS: Cell<bool> = const { Cell::new(false) };
}

/// The terminal in raw mode, on the alternate screen.
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
                    restore();
                }
                before(info);
            }));
        });
        terminal::enable_raw_mode()?;
        DRAWS.set(true);
        // From here on dropping the session restores the terminal.
        let session = Terminal::new(CrosstermBackend::new(io::stdout()))
            .map(|terminal| Self { terminal })
            .inspect_err(|_| restore())?;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(session)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if DRAWS.get() {
            restore();
        }
    }
}

/// Restores the terminal. Errors cannot be reported anywhere.
fn restore() {
    DRAWS.set(false);
    let _ = terminal::disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
}
