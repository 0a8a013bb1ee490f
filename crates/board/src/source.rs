//! What is shown beside systems: streams, clients, caches, servers; whatever renders itself as families.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use freeboard_meter::Exposition;

use crate::frame::SourceFrame;

/// The most sources of one board; further ones are not shown.
pub const SOURCES_MAX: usize = 256;

type Render = dyn Fn(&mut Exposition) + Send + Sync;

struct Source {
    number: u64,
    kind: String,
    name: String,
    render: Arc<Render>,
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
            sources.lock().sources.retain(|it| it.number != self.number);
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
        if list.sources.len() < SOURCES_MAX {
            list.sources.push(Source {
                number,
                kind: kind.to_owned(),
                name: name.to_owned(),
                render,
            });
        } else {
            tracing::warn!(
                kind,
                name,
                "the board shows {SOURCES_MAX} sources, and not this one"
            );
        }
        Shown {
            number,
            sources: Arc::downgrade(self),
        }
    }

    /// Reads all of them.
    pub(crate) fn frames(&self) -> Vec<SourceFrame> {
        let frame = |(kind, name, render): (String, String, Arc<Render>)| {
            let mut text = Exposition::new();
            // It is the user's code, and the board goes on without it.
            let _ = catch_unwind(AssertUnwindSafe(|| render(&mut text)));
            let families = text.families().to_vec();
            SourceFrame {
                kind,
                name,
                families,
            }
        };
        self.renders().into_iter().map(frame).collect()
    }

    /// Adds the families of all of them.
    pub(crate) fn render(&self, text: &mut Exposition) {
        for (_, _, render) in self.renders() {
            // One that panics half-way leaves what it had said, which is true.
            let _ = catch_unwind(AssertUnwindSafe(|| render(text)));
        }
    }

    /// Called without the lock: a source may be dropped while it is read.
    fn renders(&self) -> Vec<(String, String, Arc<Render>)> {
        let list = self.lock();
        let each = |it: &Source| (it.kind.clone(), it.name.clone(), it.render.clone());
        list.sources.iter().map(each).collect()
    }
}
