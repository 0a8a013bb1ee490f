//! One run of the scene, fully decided.

use clap::ValueEnum;
use serde::Serialize;

use super::producer::Share;
use crate::figures::{count, counted};

/// How the consumer waits for its ring, and the producers for capacity in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wait {
    /// Polls a few times, then sleeps until it is woken: costs least while it waits, most when it is woken
    Blocking,
    /// Spins, then yields, then sleeps until it is woken
    Sleeping,
    /// Spins, then yields its core again and again
    Yielding,
    /// Spins on, and takes its core for itself
    #[value(alias = "busy-spin")]
    Busyspin,
}

impl Wait {
    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Sleeping => "sleeping",
            Self::Yielding => "yielding",
            Self::Busyspin => "busyspin",
        }
    }
}

/// What the run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) messages: u64,
    /// Messages that each lane holds.
    pub(super) ring: usize,
    pub(super) producers: u32,
    pub(super) priorities: u32,
    pub(super) wait: Wait,
    /// Further consumers that receive nothing, each on its own thread.
    pub(super) idle: u32,
}

impl Plan {
    /// The run in a few words, unique among those that are compared.
    pub(super) fn title(&self) -> String {
        let priorities = match self.priorities {
            1 => "1 priority".to_owned(),
            several => format!("{several} priorities"),
        };
        let idle = match self.idle {
            0 => String::new(),
            idle => format!(", beside {idle} idle"),
        };
        format!("{}, {priorities}{idle}", self.wait.name())
    }

    pub(super) fn parameters(&self) -> String {
        format!(
            "{}: {} messages of {} through a ring of {}",
            self.title(),
            count(self.messages),
            counted(u64::from(self.producers), "producer"),
            count(self.ring as u64)
        )
    }

    /// What each producer sends.
    pub(super) fn shares(&self) -> Vec<Share> {
        (0..self.producers)
            .map(|producer| Share::of(self, producer))
            .collect()
    }
}
