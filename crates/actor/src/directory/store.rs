//! Where the actors of a directory come from, and where their state goes.

use std::{convert::Infallible, fmt};

/// One activation of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activation<K> {
    /// The key.
    pub key: K,
    /// Larger than that of each earlier activation of the key by the same directory. A store that other processes write,
    /// too, can refuse a write with an older epoch than it has seen.
    pub epoch: u64,
}

/// Loads and saves the actors of a [`crate::Directory`].
///
/// Both methods run on a worker, in a section that may block ([`crate::Context::blocking`]): other actors go on
/// meanwhile. An asynchronous store is used by the `block_on` of its runtime's handle.
///
/// A closure from an [`Activation`] to an actor is a store that saves nothing. The example `directory` of the crate
/// `freeboard` has a store that saves.
pub trait Store<K, A>: Send + Sync + 'static {
    /// Why an actor was not loaded or saved.
    type Error: fmt::Display;

    /// Makes the actor of a key, from its saved state if there is one. Runs again when the actor restarts after a
    /// panic; what has changed since the last save is lost then.
    ///
    /// # Errors
    /// A failed load, or a panic in it, fails the start of the actor. By default that stops it: messages that wait for it become dead
    /// letters, and asks get [`crate::AskError::Shed`]. The next message tries again.
    fn load(&self, activation: &Activation<K>) -> Result<A, Self::Error>;

    /// Saves the state of an actor that has handled all its messages, or was stopped between two of them, and whose
    /// `stopped` has returned. An actor that was stopped while its async handler waited is not saved, because its state
    /// may be half changed: that counts as a failed save, and is a [`crate::Failure`].
    ///
    /// # Errors
    /// After a failed save, or a panic, the actor stays: it is the next activation of the key, without a load, and is
    /// saved again when it was idle again. During a shutdown it is lost, and the shutdown's report contains the error.
    fn save(&self, activation: &Activation<K>, actor: &mut A) -> Result<(), Self::Error>;
}

impl<K, A, F: Fn(&Activation<K>) -> A + Send + Sync + 'static> Store<K, A> for F {
    type Error = Infallible;

    fn load(&self, activation: &Activation<K>) -> Result<A, Infallible> {
        Ok(self(activation))
    }

    fn save(&self, _activation: &Activation<K>, _actor: &mut A) -> Result<(), Infallible> {
        Ok(())
    }
}
