//! Severity and facility of a line, as in RFC 5424, section 6.2.1.

use std::fmt;

/// The severities, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Severity {
    /// The system is unusable.
    Emergency,
    /// Action must be taken immediately.
    Alert,
    /// Critical conditions.
    Critical,
    /// Error conditions.
    Error,
    /// Warning conditions.
    Warning,
    /// Normal but significant conditions.
    Notice,
    /// Informational messages.
    Informational,
    /// Debug messages.
    Debug,
}

impl Severity {
    /// All severities, by their number.
    pub const ALL: [Self; 8] = [
        Self::Emergency,
        Self::Alert,
        Self::Critical,
        Self::Error,
        Self::Warning,
        Self::Notice,
        Self::Informational,
        Self::Debug,
    ];

    /// Its keyword, as `logger` and `journalctl` write it.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Emergency => "emerg",
            Self::Alert => "alert",
            Self::Critical => "crit",
            Self::Error => "err",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Informational => "info",
            Self::Debug => "debug",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.keyword())
    }
}

/// A facility, 0 to 23.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facility(u8);

impl Facility {
    /// User-level messages: the facility of lines that name none.
    pub const USER: Self = Self(1);
    /// Messages of the log server itself.
    pub const SYSLOG: Self = Self(5);

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Facility and severity in one byte: facility times 8 plus severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The largest value.
    pub const MAX: u8 = 191;
    /// That of lines that name none: user, notice.
    pub const DEFAULT: Self = Self::new(Facility::USER, Severity::Notice);

    /// Of a facility and a severity.
    #[must_use]
    pub const fn new(facility: Facility, severity: Severity) -> Self {
        Self(facility.0 << 3 | severity as u8)
    }

    /// Of its number; `None` above [`Priority::MAX`].
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        if number <= Self::MAX {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its facility.
    #[must_use]
    pub const fn facility(self) -> Facility {
        Facility(self.0 >> 3)
    }

    /// Its severity.
    #[must_use]
    pub const fn severity(self) -> Severity {
        Severity::ALL[(self.0 & 7) as usize]
    }
}

/// The severity groups. Each has a lane with its own bound and policy; lines of an earlier group pass those of a later
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Emergency, alert, critical and error.
    Urgent,
    /// Warning.
    Warning,
    /// Notice and informational.
    Normal,
    /// Debug.
    Debug,
}

impl Group {
    /// All groups, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Warning, Self::Normal, Self::Debug];

    /// The group of a severity.
    #[must_use]
    pub const fn of(severity: Severity) -> Self {
        match severity {
            Severity::Emergency | Severity::Alert | Severity::Critical | Severity::Error => {
                Self::Urgent
            }
            Severity::Warning => Self::Warning,
            Severity::Notice | Severity::Informational => Self::Normal,
            Severity::Debug => Self::Debug,
        }
    }

    /// Its name in flags, configuration and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Warning => "warning",
            Self::Normal => "normal",
            Self::Debug => "debug",
        }
    }
}
