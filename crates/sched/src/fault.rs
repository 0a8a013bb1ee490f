//! Faults that tests and the laboratory ask for, to see them found.

/// What a scheduler shall do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Producers wake nobody: a worker that sleeps stays asleep while there is work, until the
    /// collapse detector finds it.
    DropWakes,
}
