//! The queues that a broker has.

/// One of a broker's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Notifications that go first.
    Priority0,
    /// The other notifications.
    Priority1,
    /// Replies.
    Replies,
    /// What could not be done, with the reason.
    DeadLetters,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Priority0,
        Self::Priority1,
        Self::Replies,
        Self::DeadLetters,
    ];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its name, without what it begins with at RabbitMQ.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Priority0 => "priority0",
            Self::Priority1 => "priority1",
            Self::Replies => "replies",
            Self::DeadLetters => "dead",
        }
    }
}
