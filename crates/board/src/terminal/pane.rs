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
    Nodes,
    Other,
}

impl Pane {
    pub(crate) const ALL: [Self; 9] = [
        Self::Actors,
        Self::Workers,
        Self::Streams,
        Self::Io,
        Self::Redis,
        Self::Cache,
        Self::Groups,
        Self::Nodes,
        Self::Other,
    ];

    /// Its title, and the text that it shows without data.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Actors => ("Actors", "no system is watched yet"),
            Self::Workers => ("Workers", "no system is watched yet"),
            Self::Streams => ("Streams", "no stream was given to this board"),
            Self::Io => ("I/O", "this system has no poller"),
            Self::Redis => ("Redis", "no Redis client was given to this board"),
            Self::Cache => ("Cache", "no cache was given to this board"),
            Self::Groups => ("Groups", "this system has no groups"),
            Self::Nodes => ("Nodes", "no node was given to this board"),
            Self::Other => ("Other", "nothing else was given to this board"),
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        self.texts().0
    }

    pub(crate) const fn without_data(self) -> &'static str {
        self.texts().1
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
            Self::Nodes => kind == "remote",
            Self::Other => !matches!(kind, "stream" | "redis" | "cache" | "remote"),
            Self::Actors | Self::Workers | Self::Io | Self::Groups => false,
        }
    }
}
