//! Documentation, conditions and lints go where they belong.

use freeboard::prelude::*;

use crate::spawn;

/// A public module: each of its public items needs documentation.
#[deny(missing_docs)]
pub mod documented {
    use freeboard::prelude::*;

    /// A thermostat.
    #[derive(Clone)]
    pub struct Thermostat(pub f32);

    impl Actor for Thermostat {}

    #[handlers]
    impl Thermostat {
        /// Sets the temperature.
        pub fn set(
            &mut self,
            /// In degrees Celsius.
            temperature: f32,
            scale: f32,
        ) -> f32 {
            self.0 = temperature * scale;
            self.0
        }

        /// Turns it off.
        pub fn off(&mut self) {
            self.0 = 0.0;
        }

        /// Exists in no build.
        #[cfg(any())]
        pub fn absent(&mut self, missing: Missing) -> Missing {
            missing
        }

        /// Exists in each build.
        #[cfg(not(loom))]
        #[must_use]
        pub fn present(&self) -> f32 {
            self.0
        }

        /// The old name.
        #[deprecated = "use `off`"]
        pub fn halt(&mut self) {
            self.off();
        }

        /// Has an argument for each part of a week.
        #[inline]
        #[expect(clippy::too_many_arguments, reason = "a week has seven days")]
        #[must_use]
        pub fn week(&self, mo: u8, tu: u8, we: u8, th: u8, fr: u8, sa: u8, su: u8, of: u8) -> u8 {
            mo + tu + we + th + fr + sa + su + of
        }
    }
}

#[test]
fn attributes_carry_over() {
    use documented::{Thermostat, ThermostatCalls, ThermostatPresent};

    let (_system, thermostat) = spawn(Thermostat(20.0));
    let set = thermostat.set(10.0, 2.5).wait().expect("a reply");
    assert!((set - 25.0).abs() < f32::EPSILON);
    assert!(thermostat.ask(ThermostatPresent).wait().expect("a reply") > 20.0);
    #[expect(deprecated, reason = "the call is deprecated as the method is")]
    thermostat.halt().wait().expect("a reply");
    assert!(thermostat.present().wait().expect("a reply") < 1.0);
    let seven = thermostat.week(1, 1, 1, 1, 1, 1, 1, 0).wait();
    assert_eq!(seven.expect("a reply"), 7);
}

/// All names of the crate under another name, and items within a function.
#[test]
fn the_crate_may_have_another_name() {
    use freeboard as board;

    #[derive(Clone)]
    struct Echo;

    impl board::Actor for Echo {}

    #[board::handlers(crate = board)]
    impl Echo {
        fn echo(&mut self, text: String) -> String {
            text
        }
    }

    let (_system, echo) = spawn(Echo);
    assert_eq!(echo.echo("a".to_owned()).wait().expect("a reply"), "a");
}

/// The prelude's attribute is the facade's.
#[handlers]
impl Unused {
    fn never_sent(&self, _argument: u8) {}
}

struct Unused;

impl Actor for Unused {}

#[test]
fn handlers_that_nobody_calls_give_no_warning() {
    let system = System::builder().workers(1).build().expect("a system");
    assert!(system.spawn(Unused).is_alive());
}
