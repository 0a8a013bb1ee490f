//! The sources of a server: those that are open, those that have closed with lines in memory, and the sums of the others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        PoisonError,
        // Not those of `sync`: they only count.
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use freeboard::{
    meter::clock,
    platform::sync::{Condvar, Mutex, MutexGuard},
};

use crate::{
    batch::Format,
    repeats::Repeats,
    server::ServerHandle,
    source::{Shed, Source, SourceBound},
};

/// Lines of all sources, open and closed.
///
/// accepted = taken + shed + held
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sources that are open.
    pub open: u64,
    /// Sources that have been opened.
    pub opened: u64,
    /// Lines accepted.
    pub accepted: u64,
    /// Lines that all sinks have taken.
    pub taken: u64,
    /// Lines shed, by [`Shed`].
    pub shed: [u64; Shed::ALL.len()],
    /// Lines in memory.
    pub held: u64,
    /// Lines by [`Format`].
    pub formats: [u64; Format::ALL.len()],
    /// Malformed lines.
    pub malformed: u64,
}

impl Totals {
    fn add(&mut self, source: &Source) {
        // First what is taken and shed: a line that is taken meanwhile counts as held.
        self.taken += source.taken();
        for reason in Shed::ALL {
            self.shed[reason as usize] += source.shed(reason);
        }
        self.held += source.held();
        self.accepted += source.accepted();
    }
}

/// Lines of one read, by what they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) formats: [u64; Format::ALL.len()],
    pub(crate) malformed: u64,
}

#[derive(Debug)]
struct Open {
    source: Arc<Source>,
    repeats: Option<Arc<Repeats>>,
    may_be_cut: bool,
}

#[derive(Debug, Default)]
struct State {
    opened: u64,
    open: BTreeMap<u64, Open>,
    /// Closed, and to be reported once more. Each holds lines, or has shed some since the last report.
    closed: Vec<Arc<Source>>,
    /// Of sources that are in neither.
    sums: Totals,
}

/// The sources of a server.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    state: Mutex<State>,
    /// Signalled when a source has closed.
    has_closed: Condvar,
    formats: [AtomicU64; Format::ALL.len()],
    malformed: AtomicU64,
}

impl Sources {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(
        &self,
        name: &str,
        bound: SourceBound,
        repeats: Option<Arc<Repeats>>,
    ) -> (u64, Arc<Source>) {
        let source = Source::new(name, bound);
        let open = Open {
            source: source.clone(),
            repeats,
            may_be_cut: false,
        };
        let mut state = self.lock();
        state.opened += 1;
        let number = state.opened;
        state.open.insert(number, open);
        (number, source)
    }

    pub(crate) fn close(&self, number: u64) {
        let mut state = self.lock();
        let closed = state.open.remove(&number);
        if let Some(open) = &closed {
            state.closed.push(open.source.clone());
        }
        drop(state);
        self.has_closed.notify_all();
    }

    pub(crate) fn count(&self, kinds: &Kinds) {
        for (counter, lines) in self.formats.iter().zip(kinds.formats) {
            if lines > 0 {
                // Ordering: Relaxed: counters.
                counter.fetch_add(lines, Ordering::Relaxed);
            }
        }
        if kinds.malformed > 0 {
            self.malformed.fetch_add(kinds.malformed, Ordering::Relaxed);
        }
    }

    /// Those that are open.
    pub(crate) fn all_open(&self) -> Vec<Arc<Source>> {
        let state = self.lock();
        state
            .open
            .values()
            .map(|open| open.source.clone())
            .collect()
    }

    /// Those that are open, or have lines in memory, or have shed lines that no summary has named.
    pub(crate) fn to_report(&self) -> Vec<Arc<Source>> {
        let state = self.lock();
        let open = state.open.values().map(|open| &open.source);
        open.chain(&state.closed).cloned().collect()
    }

    /// Forgets closed sources whose lines are all taken, or shed and reported.
    pub(crate) fn prune(&self) {
        let mut state = self.lock();
        let State { closed, sums, .. } = &mut *state;
        closed.retain(|source| {
            // Who holds lines has not counted them.
            let is_needed = source.held() > 0 || source.has_unreported();
            if !is_needed {
                sums.add(source);
            }
            is_needed
        });
    }

    /// The counts of repeated lines of the open sources.
    pub(crate) fn all_repeats(&self) -> Vec<(Arc<Source>, Arc<Repeats>)> {
        let state = self.lock();
        let with_repeats = |open: &Open| Some((open.source.clone(), open.repeats.clone()?));
        state.open.values().filter_map(with_repeats).collect()
    }

    pub(crate) fn totals(&self) -> Totals {
        let state = self.lock();
        let mut totals = state.sums;
        for source in state.open.values().map(|open| &open.source) {
            totals.add(source);
        }
        for source in &state.closed {
            totals.add(source);
        }
        totals.open = state.open.len() as u64;
        totals.opened = state.opened;
        totals.formats = std::array::from_fn(|at| self.formats[at].load(Ordering::Relaxed));
        totals.malformed = self.malformed.load(Ordering::Relaxed);
        totals
    }

    /// Waits until no source is open but those that may be cut off; how many others are at the deadline.
    pub(crate) fn wait_until_closed(&self, deadline: Instant) -> usize {
        let count = |state: &State| {
            let open = state.open.values();
            open.filter(|source| !source.may_be_cut).count()
        };
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(clock::now());
            let open = count(&state);
            if open == 0 || left.is_zero() {
                return open;
            }
            let waited = self.has_closed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A source while its input may feed it.
pub(crate) struct OpenSource {
    server: ServerHandle,
    source: Arc<Source>,
    repeats: Option<Arc<Repeats>>,
    number: u64,
}

impl OpenSource {
    pub(crate) fn new(server: &ServerHandle, name: &str) -> Self {
        let config = server.config();
        let repeats = config.has_coalescing().then(Arc::default);
        let (number, source) = server.sources().open(name, config.source, repeats.clone());
        Self {
            server: server.clone(),
            source,
            repeats,
            number,
        }
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    pub(crate) fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// A stop may cut it off: it is a request, and a client without an answer repeats its request.
    pub(crate) fn allow_cut(&self) {
        if let Some(open) = self.server.sources().lock().open.get_mut(&self.number) {
            open.may_be_cut = true;
        }
    }

    pub(crate) fn repeats(&self) -> Option<&Repeats> {
        self.repeats.as_deref()
    }
}

impl Drop for OpenSource {
    fn drop(&mut self) {
        self.server.sources().close(self.number);
    }
}
