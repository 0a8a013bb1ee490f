//! An axis: what it measures, how far it goes, and where its ticks are.

/// Ticks of a linear axis, at the most, without that at 0.
const TICKS_MAX: f64 = 5.0;
/// Ticks of any axis: more decades than anything that is measured has.
const TICKS_LIMIT: usize = 40;
/// Beyond it sums are no numbers any more.
const VALUE_MAX: f64 = 1e300;

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 0.
    Linear,
    /// From the axis' unit, with whatever is below drawn there.
    Logarithmic,
}

/// An axis as it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    /// What it measures, with its unit.
    pub(crate) title: &'static str,
    pub(crate) write: fn(f64) -> String,
    pub(crate) scale: Scale,
    /// The least distance between two ticks.
    pub(crate) unit: f64,
    /// It goes on to here at least, so that another plot can be compared with this one.
    pub(crate) reach: f64,
}

impl Axis {
    /// From 0, as far as the values are.
    pub(crate) const fn linear(title: &'static str, write: fn(f64) -> String) -> Self {
        Self {
            title,
            write,
            scale: Scale::Linear,
            unit: 1.0,
            reach: 0.0,
        }
    }

    /// The same, on to here at least.
    pub(crate) const fn reaching(self, reach: f64) -> Self {
        Self { reach, ..self }
    }

    /// The axis of values up to `most`; it ends there, or at a tick.
    pub(super) fn ruler(&self, most: f64, ends_at_tick: bool) -> Ruler {
        // Of a value that is no number the other is the larger.
        let most = most.max(self.reach).max(self.unit).min(VALUE_MAX);
        let (step, end) = match self.scale {
            Scale::Linear => {
                let step = step(most, self.unit);
                let end = if ends_at_tick {
                    (most / step).ceil() * step
                } else {
                    most
                };
                (step, end)
            }
            Scale::Logarithmic => {
                // It ends with the values: a decade more would be mostly empty.
                (10.0, most.max(self.unit * 10.0))
            }
        };
        Ruler {
            axis: *self,
            step,
            end,
        }
    }
}

/// The least of 1, 2, 5, 10, 20 and so on times the unit of which few make up the whole.
fn step(whole: f64, unit: f64) -> f64 {
    let mut decade = unit;
    loop {
        for digit in [1.0, 2.0, 5.0] {
            if whole / (decade * digit) <= TICKS_MAX {
                return decade * digit;
            }
        }
        decade *= 10.0;
    }
}

/// An axis whose end is known.
#[derive(Debug)]
pub(super) struct Ruler {
    axis: Axis,
    /// Between two ticks: a distance, or a factor.
    step: f64,
    end: f64,
}

impl Ruler {
    /// Where a value lies: 0 at the beginning, 1 at the end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self.axis.scale {
            Scale::Linear => value / self.end,
            Scale::Logarithmic => {
                let unit = self.axis.unit;
                (value.max(unit) / unit).ln() / (self.end / unit).ln()
            }
        };
        share.clamp(0.0, 1.0)
    }

    /// Where ticks are, and what stands there.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let next = |value: &f64| match self.axis.scale {
            Scale::Linear => Some(value + self.step),
            Scale::Logarithmic => Some(value * self.step),
        };
        let first = match self.axis.scale {
            Scale::Linear => 0.0,
            Scale::Logarithmic => self.axis.unit,
        };
        // Sums of fractions end a little beside where they should.
        let end = self.end * (1.0 + 1e-9);
        std::iter::successors(Some(first), next)
            .take_while(|value| *value <= end)
            .take(TICKS_LIMIT)
            .map(|value| (self.share(value), (self.axis.write)(value)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Axis = Axis::linear("length", |length| format!("{length}"));
    const LOGARITHMIC: Axis = Axis {
        scale: Scale::Logarithmic,
        ..LENGTH
    };

    fn check(axis: Axis, most: f64, wanted: &[&str]) {
        let ticks = axis.ruler(most, true).ticks();
        let names: Vec<&str> = ticks.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, wanted, "{most}");
        assert!(ticks.iter().all(|(share, _)| (0.0..=1.0).contains(share)));
    }

    #[test]
    fn ticks_are_few_and_round() {
        check(LENGTH, 0.0, &["0", "1"]);
        check(LENGTH, 3.5, &["0", "1", "2", "3", "4"]);
        check(LENGTH, 7.0, &["0", "2", "4", "6", "8"]);
        check(LENGTH, 1_000.0, &["0", "200", "400", "600", "800", "1000"]);
        check(LENGTH.reaching(40.0), 7.0, &["0", "10", "20", "30", "40"]);
        let fine = Axis {
            unit: 0.25,
            ..LENGTH
        };
        check(fine, 1.0, &["0", "0.25", "0.5", "0.75", "1"]);
    }

    #[test]
    fn a_logarithmic_axis_has_a_tick_for_each_decade() {
        check(LOGARITHMIC, 999.0, &["1", "10", "100"]);
        check(LOGARITHMIC, 1_000.0, &["1", "10", "100", "1000"]);
        check(LOGARITHMIC, 0.0, &["1", "10"]);
        let ruler = LOGARITHMIC.ruler(100.0, true);
        assert_eq!(ruler.share(0.0), 0.0);
        assert!((ruler.share(10.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn no_value_breaks_it() {
        for most in [f64::MAX, f64::INFINITY, f64::NAN, -1.0] {
            for axis in [LENGTH, LOGARITHMIC] {
                let ruler = axis.ruler(most, true);
                assert!(ruler.ticks().len() <= TICKS_LIMIT, "{most}");
                assert!((0.0..=1.0).contains(&ruler.share(most.min(1e9))));
            }
        }
    }
}
