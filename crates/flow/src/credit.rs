//! How much a receiver lets a sender have under way.
//!
//! The dam's rule (`Dam::credit(window)`): a message that goes out takes credit, one that was
//! handled gives it back. Follows the credit windows of TCP and of Pony's and RabbitMQ's flow
//! control; here it is arithmetic only, kept by one owner.

/// A window of messages that may be outstanding at once.
///
/// `available + outstanding = window` always holds.
///
/// ```
/// use freeboard_flow::Credit;
///
/// let mut credit = Credit::new(2);
/// assert!(credit.try_take(2));
/// assert!(!credit.try_take(1));
/// credit.give_back(1);
/// assert_eq!((credit.available(), credit.outstanding()), (1, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    window: u64,
    outstanding: u64,
}

impl Credit {
    /// A window of which nothing is outstanding. A window of 0 lets nothing through.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            window,
            outstanding: 0,
        }
    }

    /// Takes `messages` of credit if there is that much, all or nothing.
    #[must_use]
    pub const fn try_take(&mut self, messages: u64) -> bool {
        if messages > self.available() {
            return false;
        }
        self.outstanding += messages;
        assert!(self.outstanding <= self.window, "credit above its window");
        true
    }

    /// Gives `messages` of credit back.
    ///
    /// # Panics
    ///
    /// If more is given back than is outstanding: somebody counted a message twice.
    pub const fn give_back(&mut self, messages: u64) {
        assert!(
            messages <= self.outstanding,
            "more credit given back than was taken"
        );
        self.outstanding -= messages;
    }

    /// How much may still be taken, in messages.
    #[must_use]
    pub const fn available(&self) -> u64 {
        self.window - self.outstanding
    }

    /// How much has been taken and not given back, in messages.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// The most that may be outstanding at once, in messages.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window
    }
}
