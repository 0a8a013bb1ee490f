//! The filter of a viewer: words and comparisons that must all match.
//!
//! ```text
//!   filter     = term (blank term)*
//!   term       = column ("<" | "<=" | "=" | ">=" | ">") number     depth>10k  queue_p99>=5ms
//!              | ("name" | "type" | "state" | "id") ":" text        type:LogServer
//!              | text                                               in any of the four
//! ```
//!
//! Text matches anywhere and ignores the case of ASCII letters. Numbers may end in `k` or `M`; times in `ns`,
//! `us`, `ms` or `s`, and are nanoseconds otherwise. An actor without a measured time matches no comparison
//! of it.

use crate::{
    actor_table::ActorEntry,
    query::{FILTER_BYTES_MAX, SortKey},
};

/// A parsed filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    terms: Vec<Term>,
}

/// Why a filter was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It is too long.
    #[error("a filter has at most {FILTER_BYTES_MAX} bytes")]
    TooLong,
    /// The compared name is not a column of numbers.
    #[error("`{0}` is no column of numbers; try depth, in, out, shed, restarts, queue_p99")]
    Column(String),
    /// There is nothing after the comparison sign.
    #[error("there is nothing to compare `{0}` with; write {0}>1000")]
    Nothing(String),
    /// The compared value is not a number.
    #[error("`{0}` is no number; write 1000, 10k, 2M, or a time as 500us, 5ms, 1s")]
    Number(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Anywhere(String),
    Name(String),
    Type(String),
    State(String),
    Id(String),
    Compare(SortKey, Relation, f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

impl Filter {
    /// Parses a filter; an empty one matches every actor.
    ///
    /// # Errors
    /// [`FilterError`], whose text can be shown to users.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        let terms: Result<_, _> = text.split_whitespace().map(Term::parse).collect();
        Ok(Self { terms: terms? })
    }

    /// Whether it needs histograms.
    pub(crate) fn needs_times(&self) -> bool {
        self.terms
            .iter()
            .any(|term| matches!(term, Term::Compare(key, ..) if key.is_time()))
    }

    pub(crate) fn matches(&self, actor: ActorEntry<'_>) -> bool {
        self.terms.iter().all(|term| term.holds(actor))
    }
}

impl Term {
    fn parse(term: &str) -> Result<Self, FilterError> {
        if let Some(at) = term.find(['<', '=', '>']) {
            return Self::comparison(&term[..at], &term[at..]);
        }
        let text = |text: &str| text.to_owned();
        Ok(match term.split_once(':') {
            Some(("name", name)) => Self::Name(text(name)),
            Some(("type", actor_type)) => Self::Type(text(actor_type)),
            // The state was called "held" before.
            Some(("state", "held")) => Self::State(text("suspended")),
            Some(("state", state)) => Self::State(text(state)),
            Some(("id", id)) => Self::Id(text(id)),
            _ => Self::Anywhere(text(term)),
        })
    }

    fn comparison(column: &str, rest: &str) -> Result<Self, FilterError> {
        let key = SortKey::from_name(column)
            .filter(|key| !matches!(key, SortKey::Name | SortKey::Type | SortKey::State))
            .ok_or_else(|| FilterError::Column(column.to_owned()))?;
        let relations = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("<", Relation::Less),
            (">", Relation::Greater),
            ("=", Relation::Equal),
        ];
        let found = relations
            .into_iter()
            .find_map(|(sign, relation)| Some((relation, rest.strip_prefix(sign)?)));
        let (relation, number) = found.expect("the term was cut at one of these signs");
        if number.is_empty() {
            return Err(FilterError::Nothing(column.to_owned()));
        }
        let number = parse_number(number, key.is_time())?;
        Ok(Self::Compare(key, relation, number))
    }

    fn holds(&self, actor: ActorEntry<'_>) -> bool {
        let stats = actor.stats;
        let name = stats.name.as_deref().unwrap_or_default();
        let has_id = |text: &str| stats.at.id().to_string() == text;
        match self {
            Self::Anywhere(text) => {
                contains(name, text)
                    || contains(stats.actor_type, text)
                    || contains(stats.state, text)
                    || has_id(text)
            }
            Self::Name(text) => contains(name, text),
            Self::Type(text) => contains(stats.actor_type, text),
            Self::State(text) => contains(stats.state, text),
            Self::Id(text) => has_id(text),
            Self::Compare(key, relation, number) => {
                let Some(value) = actor.number(*key) else {
                    return false;
                };
                match relation {
                    Relation::Less => value < *number,
                    Relation::AtMost => value <= *number,
                    Relation::Equal => value == *number,
                    Relation::AtLeast => value >= *number,
                    Relation::Greater => value > *number,
                }
            }
        }
    }
}

/// Whether `whole` contains `text`, ignoring the case of ASCII letters. It does not allocate, because it is
/// called for each actor.
fn contains(whole: &str, text: &str) -> bool {
    let (whole, text) = (whole.as_bytes(), text.as_bytes());
    text.is_empty()
        || whole
            .windows(text.len())
            .any(|window| window.eq_ignore_ascii_case(text))
}

fn parse_number(text: &str, is_time: bool) -> Result<f64, FilterError> {
    let units: &[(&str, f64)] = if is_time {
        &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]
    } else {
        &[("k", 1e3), ("M", 1e6)]
    };
    let (digits, unit) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1.0));
    digits
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
        .map(|number| number * unit)
        .ok_or_else(|| FilterError::Number(text.to_owned()))
}
