//! Mistakes that are planted into the code, to see that simulations find them.
//!
//! They exist only in a build with `--cfg planted`, and one at a time is active on a thread. The line of a mistake is
//! `if planted!("its name") { … }`; in any other build it is `if false`.

use std::cell::Cell;

thread_local! {
    static ACTIVE: Cell<&'static str> = const { Cell::new("") };
}

/// Whether the mistake with this name is active on this thread. Always false in a build without `--cfg planted`.
#[must_use]
pub fn is(name: &str) -> bool {
    cfg!(planted) && ACTIVE.try_with(Cell::get).is_ok_and(|it| it == name)
}

/// Makes one mistake the active one of this thread; none for an empty name.
pub fn set(name: &'static str) {
    ACTIVE.set(name);
}

/// Whether a mistake is made: see [`planted`](mod@crate::planted).
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        cfg!(planted) && $crate::planted::is($name)
    };
}
