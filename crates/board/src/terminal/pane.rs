//! The panes below the workers, of which one is shown.

/// One of the panes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    Actors,
    Workers,
    Streams,
    Io,
    Redis,
    Cache,
    Groups,
    Other,
}

impl Pane {
    pub(crate) const ALL: [Self; 8] = [
        Self::Actors,
        Self::Workers,
        Self::Streams,
        Self::Io,
        Self::Redis,
        Self::Cache,
        Self::Groups,
        Self::Other,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Actors => "Actors",
            Self::Workers => "Workers",
            Self::Streams => "Streams",
            Self::Io => "I/O",
            Self::Redis => "Redis",
            Self::Cache => "Cache",
            Self::Groups => "Groups",
            Self::Other => "Other",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The pane `by` positions to the right, cyclically.
    pub(crate) fn turned(self, by: usize) -> Self {
        Self::ALL[(self.index() + by) % Self::ALL.len()]
    }

    /// Whether it shows sources of this kind.
    pub(crate) fn shows(self, kind: &str) -> bool {
        match self {
            Self::Streams => kind == "stream",
            Self::Redis => kind == "redis",
            Self::Cache => kind == "cache",
            Self::Other => !matches!(kind, "stream" | "redis" | "cache"),
            Self::Actors | Self::Workers | Self::Io | Self::Groups => false,
        }
    }
}
