//! Sources beside systems: streams, clients, caches, servers; everything that renders metric families.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use freeboard_meter::{Exposition, now_ns};

use crate::frame::SourceFrame;

/// The most sources that are shown; the page shows the number of the others.
pub const SOURCES_MAX: usize = 256;

/// The most samples of one source; further families are left out.
pub const SAMPLES_MAX: usize = 2_000;

type Render = dyn Fn(&mut Exposition) + Send + Sync;

#[derive(Clone)]
struct Source {
    number: u64,
    kind: String,
    name: String,
    /// `None` after a panic: it would panic again, ten times a second.
    render: Option<Arc<Render>>,
}

/// All sources of a board.
#[derive(Default)]
pub(crate) struct Sources {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    next: u64,
    sources: Vec<Source>,
}

/// Shows a source for as long as it is kept.
#[must_use = "the source is shown until this is dropped"]
pub struct Shown {
    number: u64,
    sources: Weak<Sources>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(sources) = self.sources.upgrade() {
            // Dropped without the lock: it may hold the last handle of something that is slow to drop.
            drop(sources.take(self.number));
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Shown({})", self.number)
    }
}

impl Sources {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(self: &Arc<Self>, kind: &str, name: &str, render: Arc<Render>) -> Shown {
        let mut list = self.lock();
        let number = list.next;
        list.next += 1;
        list.sources.push(Source {
            number,
            kind: kind.to_owned(),
            name: name.to_owned(),
            render: Some(render),
        });
        Shown {
            number,
            sources: Arc::downgrade(self),
        }
    }

    fn take(&self, number: u64) -> Option<Source> {
        let mut list = self.lock();
        let index = list.sources.iter().position(|it| it.number == number)?;
        Some(list.sources.remove(index))
    }

    /// Reads all shown sources; returns the number of the others too.
    pub(crate) fn frames(&self) -> (Vec<SourceFrame>, u64) {
        let (sources, more) = self.list();
        let frame = |source: Source| {
            let (kind, name) = (source.kind.clone(), source.name.clone());
            let mut text = Exposition::new();
            self.call(source, &mut text);
            let mut left = SAMPLES_MAX;
            let families = text.families().iter().take_while(|family| {
                let fits = family.samples.len() <= left;
                left = left.saturating_sub(family.samples.len());
                fits
            });
            SourceFrame {
                kind,
                name,
                at_ns: now_ns(),
                families: families.cloned().collect(),
            }
        };
        (sources.into_iter().map(frame).collect(), more)
    }

    /// Adds the families of all shown sources.
    pub(crate) fn render(&self, text: &mut Exposition) {
        for source in self.list().0 {
            self.call(source, text);
        }
    }

    /// Calls a source. It is user code and may be dropped here; the board continues without a source that
    /// panics.
    fn call(&self, source: Source, text: &mut Exposition) {
        let Source {
            number,
            kind,
            name,
            render,
        } = source;
        let Some(render) = render else { return };
        let called = catch_unwind(AssertUnwindSafe(move || {
            render(text);
            drop(render);
        }));
        if called.is_err() {
            tracing::error!(
                kind,
                name,
                "a source of the board panicked; it is not called again"
            );
            let mut list = self.lock();
            let source = list.sources.iter_mut().find(|it| it.number == number);
            let render = source.and_then(|source| source.render.take());
            drop(list);
            // It has panicked once already.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(render)));
        }
    }

    /// The shown sources, and the number of the others.
    fn list(&self) -> (Vec<Source>, u64) {
        let list = self.lock();
        let shown = list.sources.iter().take(SOURCES_MAX).cloned().collect();
        let more = list.sources.len().saturating_sub(SOURCES_MAX);
        (shown, more as u64)
    }
}
