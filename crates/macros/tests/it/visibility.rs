//! Messages and calls are as visible as their methods.

use std::error::Error;

use freeboard::prelude::*;

use crate::spawn;

/// The door is public in its module, so each of its methods may have any visibility.
pub mod house {
    use super::{Actor, Context, handlers};

    /// A door.
    #[derive(Clone, Default)]
    pub struct Door {
        is_open: bool,
        keys: u8,
    }

    impl Actor for Door {}

    #[handlers]
    impl Door {
        /// Opens it, if there is a key.
        pub fn open(&mut self, cx: &mut Context<Self>) -> bool {
            // In this module, the private call and message exist.
            drop(cx.actor_ref().count_keys());
            cx.actor_ref().tell_or_log(DoorCountKeys);
            self.is_open |= self.keys > 0;
            self.is_open
        }

        pub(crate) fn add_key(&mut self) {
            self.keys += 1;
        }

        pub(super) fn lock(&mut self) {
            self.is_open = false;
        }

        fn count_keys(&self) -> u8 {
            self.keys
        }
    }
}

#[test]
fn each_visibility_has_a_trait() -> Result<(), Box<dyn Error>> {
    use house::{Door, DoorAddKey, DoorCalls, DoorCrateCalls, DoorLock, DoorModuleCalls};

    let (_system, door) = spawn(Door::default());
    assert!(!door.open().wait()?);
    door.tell(DoorAddKey)?;
    door.add_key().wait()?;
    assert!(door.open().wait()?);
    door.tell(DoorLock)?;
    door.lock().wait()?;
    Ok(())
}

/// A private type with public methods, as in a program of one file.
#[derive(Clone)]
struct Bell;

impl Actor for Bell {}

#[handlers]
impl Bell {
    pub fn ring(&mut self) -> Sound {
        Sound
    }
}

#[derive(Debug, PartialEq)]
struct Sound;

#[test]
fn the_widest_trait_has_the_short_name() -> Result<(), Box<dyn Error>> {
    let (_system, bell) = spawn(Bell);
    assert_eq!(BellCalls::ring(&bell).wait()?, Sound);
    Ok(())
}
