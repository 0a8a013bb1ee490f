//! A smaller run of the same seed: without some of its faults, and with smaller sizes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use thiserror::Error;

/// What a run leaves out. Its text form is `without=1,4 clients=2`; the default leaves nothing out.
///
/// ```
/// use freeboard_sim::Reduction;
///
/// let reduction: Reduction = "without=1,4 clients=2".parse()?;
/// assert_eq!(reduction.to_string(), "without=1,4 clients=2");
/// # Ok::<(), freeboard_sim::BadReduction>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// The numbers of the planned faults that do not happen.
    pub without: BTreeSet<usize>,
    /// The most that sizes are: see [`World::size`](crate::World::size).
    pub sizes: BTreeMap<String, usize>,
}

/// A text that is no [`Reduction`].
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is neither `without=NUMBER,NUMBER` nor `SIZE=NUMBER`")]
pub struct BadReduction(String);

impl fmt::Display for Reduction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if !self.without.is_empty() {
            let numbers: Vec<_> = self.without.iter().map(ToString::to_string).collect();
            words.push(format!("without={}", numbers.join(",")));
        }
        words.extend(
            self.sizes
                .iter()
                .map(|(name, size)| format!("{name}={size}")),
        );
        formatter.write_str(&words.join(" "))
    }
}

impl FromStr for Reduction {
    type Err = BadReduction;

    fn from_str(text: &str) -> Result<Self, BadReduction> {
        let mut reduction = Self::default();
        for word in text.split_whitespace() {
            reduction
                .add(word)
                .ok_or_else(|| BadReduction(word.to_owned()))?;
        }
        Ok(reduction)
    }
}

/// Whether the command that repeats a run can have a size of this name.
pub(crate) fn is_size(name: &str) -> bool {
    let is_plain = |it: char| it.is_alphanumeric() || "-_".contains(it);
    let words = ["seed", "without", "until", "follow", "trace"];
    !name.is_empty() && name.chars().all(is_plain) && !words.contains(&name)
}

impl Reduction {
    fn add(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        if name == "without" {
            for number in value.split(',') {
                self.without.insert(number.parse().ok()?);
            }
        } else {
            self.sizes.insert(name.to_owned(), value.parse().ok()?);
        }
        Some(())
    }
}
