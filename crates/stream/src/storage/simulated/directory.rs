//! The names, and which of them survive.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex},
};

use super::{
    content::Content,
    machine::{Random, lock},
};

pub(super) type SharedContent = Arc<Mutex<Content>>;

type Names = BTreeMap<String, SharedContent>;

/// A change of names that is not durable yet.
#[derive(Debug)]
enum Change {
    Create { name: String, file: SharedContent },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), file.clone());
            }
            Self::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }

    fn names(&self) -> [&str; 2] {
        match self {
            Self::Create { name, .. } | Self::Remove { name } => [name, name],
            Self::Rename { from, to } => [from, to],
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Directory {
    /// The names that programs see.
    names: Names,
    /// The names on the device.
    durable: Names,
    /// The changes from `durable` to `names`, in order.
    changes: Vec<Change>,
}

impl Directory {
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.keys()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &SharedContent> {
        self.names.values()
    }

    pub(super) fn get(&self, name: &str) -> io::Result<SharedContent> {
        let file = self.names.get(name).cloned();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, name: &str, file: SharedContent) {
        let name = name.to_owned();
        self.change(Change::Create { name, file });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.change(Change::Rename { from, to });
    }

    pub(super) fn remove(&mut self, name: &str) {
        let name = name.to_owned();
        self.change(Change::Remove { name });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Removes all files, and empties them: some may be open for ever.
    pub(super) fn erase(&mut self) {
        let created = self.changes.iter().filter_map(|change| match change {
            Change::Create { file, .. } => Some(file),
            Change::Rename { .. } | Change::Remove { .. } => None,
        });
        let named = self.names.values().chain(self.durable.values());
        for file in named.chain(created) {
            lock(file).erase();
        }
        *self = Self::default();
    }

    /// Makes the changes of one directory durable: of the names that begin with `prefix`, and are not in one below.
    pub(super) fn sync(&mut self, prefix: &str) {
        let is_here = |name: &str| {
            let here = name.strip_prefix(prefix);
            here.is_some_and(|here| !here.contains('/'))
        };
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            // A rename stays in its directory.
            let is_synced = is_here(change.names()[0]);
            if is_synced {
                change.apply(durable);
            }
            !is_synced
        });
    }

    /// Some of the changes become durable. None does that concerns a name which a lost change before
    /// it concerned.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        let is_kept = random.subset(self.changes.len());
        let mut lost = BTreeSet::new();
        for (change, is_kept) in self.changes.iter().zip(is_kept) {
            let names = change.names();
            if is_kept && names.iter().all(|name| !lost.contains(name)) {
                change.apply(&mut self.durable);
            } else {
                lost.extend(names);
            }
        }
        self.changes.clear();
        self.names.clone_from(&self.durable);
    }
}
