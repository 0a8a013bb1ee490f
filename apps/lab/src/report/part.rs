//! A part of the report: a scene that was run, and its result.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    time::Instant,
};

use anyhow::Result;

use super::scene::{Scene, Size};
use crate::{console::Console, figures, findings::Findings, interrupt::Interrupt, peers::Peers};

/// How a scene ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    Failed,
    Interrupted,
}

impl State {
    /// As a table says it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A scene and its result.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) scene: Scene,
    pub(super) size: Size,
    pub(super) seconds: f64,
    /// None if it did not come so far.
    pub(super) findings: Option<Findings>,
    /// What failed, if something did.
    pub(super) failure: Option<String>,
    was_interrupted: bool,
}

impl Part {
    /// Runs a scene; an error or a panic becomes a failure.
    pub(super) fn play(
        scene: Scene,
        size: Size,
        console: &Console,
        peers: &Peers,
        interrupt: &Interrupt,
    ) -> Self {
        let begun = Instant::now();
        let played = guarded(|| scene.run(size, console, peers, interrupt));
        console.end_bars();
        let (findings, failure) = match played {
            Ok(mut findings) => {
                let failure = findings.failure.take();
                (Some(findings), failure)
            }
            Err(failure) => (None, Some(failure)),
        };
        Self {
            scene,
            size,
            seconds: begun.elapsed().as_secs_f64(),
            findings,
            failure,
            was_interrupted: interrupt.has_come(),
        }
    }

    pub(super) const fn state(&self) -> State {
        match (&self.failure, self.was_interrupted) {
            (Some(_), _) => State::Failed,
            (None, true) => State::Interrupted,
            (None, false) => State::Ok,
        }
    }

    /// What came of it, for a terminal.
    pub(super) fn lines(&self) -> Vec<String> {
        let ended = format!(
            "      {}, {}",
            self.state().name(),
            figures::seconds(self.seconds)
        );
        let failure = self
            .failure
            .iter()
            .map(|failure| format!("      {failure}"));
        let verdict = self
            .findings
            .iter()
            .map(|it| format!("      {}", it.section.verdict));
        std::iter::once(ended)
            .chain(failure)
            .chain(verdict)
            .collect()
    }
}

/// Runs what may fail or panic; if it does, in words.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T, String> {
    // What a scene shares with the others is its console, whose locks do not mind.
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(panic) => Err(format!("it panicked: {}", said(&*panic))),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_said_of_an_interrupted_act_too() {
        let part = Part {
            scene: Scene::Ring,
            size: Size::Quick,
            seconds: 1.0,
            findings: None,
            failure: Some("no room".to_owned()),
            was_interrupted: true,
        };
        assert_eq!(part.state(), State::Failed);
        assert_eq!(part.lines()[1].trim(), "no room");
    }

    #[test]
    fn failures_and_panics_are_said_alike() {
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        let check = |run: fn() -> Result<u8>, text: &str| {
            assert_eq!(guarded(run), Err(text.to_owned()));
        };
        check(|| anyhow::bail!("no room"), "no room");
        check(|| panic!("a bug"), "it panicked: a bug");
        check(|| panic!("a bug in {}", 7), "it panicked: a bug in 7");
        check(|| panic::panic_any(7), "it panicked: without a word");
    }
}
