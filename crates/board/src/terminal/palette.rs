//! Colours, or none. A colour repeats the information of a sign, a word or a number.

use freeboard_meter::{BalanceClass, WorkerState};
use ratatui::style::{Color, Modifier, Style};

/// The colours of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// The sixteen colours of every terminal, which follow its theme.
    Colour,
    /// Only bold, dim and reversed.
    Plain,
}

impl Palette {
    /// Plain if the environment's `NO_COLOR` is set and not empty (no-color.org).
    #[must_use]
    pub fn of_environment() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Self::Plain,
            _ => Self::Colour,
        }
    }

    fn fore(self, colour: Color) -> Style {
        match self {
            Self::Colour => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn good(self) -> Style {
        self.fore(Color::Green)
    }

    pub(crate) fn warning(self) -> Style {
        self.fore(Color::Yellow)
    }

    pub(crate) fn bad(self) -> Style {
        self.fore(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn accent(self) -> Style {
        self.fore(Color::Cyan)
    }

    /// For the fill level of a mailbox.
    pub(crate) fn fill(self, share: f64) -> Style {
        match share {
            0.9.. => self.bad(),
            0.5.. => self.warning(),
            _ => Style::new(),
        }
    }

    pub(crate) fn state(self, state: WorkerState) -> Style {
        match state {
            WorkerState::Run => self.good(),
            WorkerState::Search => self.warning(),
            WorkerState::Spin => self.fore(Color::Magenta),
            WorkerState::Poll => self.accent(),
            WorkerState::Blocked => self.bad(),
            WorkerState::Park | WorkerState::Offline => self.dim(),
        }
    }

    pub(crate) fn class(self, class: BalanceClass) -> Style {
        match class {
            BalanceClass::Even => self.good(),
            BalanceClass::MinorityZero => self.warning(),
            BalanceClass::Unbalanced => self.bad(),
        }
    }
}
