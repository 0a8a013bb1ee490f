//! The global run queue: tasks from outside the workers, and tasks whose budget expired.
//!
//! A linked list through the task headers under a mutex, with an atomic length, so that idle workers see without the lock
//! that it is empty. It never allocates.

use crate::{
    sync::{AtomicUsize, Mutex, Ordering},
    task::Task,
};

#[derive(Default)]
struct List {
    first: Option<Task>,
    last: Option<Task>,
    is_closed: bool,
}

#[derive(Default)]
pub(crate) struct Injector {
    list: Mutex<List>,
    length: AtomicUsize,
}

impl Injector {
    pub(crate) fn len(&self) -> usize {
        // Ordering: SeqCst, the sleeper's check of the queues after it announced its sleep.
        self.length.load(Ordering::SeqCst)
    }

    pub(crate) fn push(&self, task: Task) {
        self.push_batch(&[task]);
    }

    pub(crate) fn push_batch(&self, tasks: &[Task]) {
        let mut list = self.list.lock().expect("nothing panics under this lock");
        if list.is_closed {
            return;
        }
        for &task in tasks {
            // SAFETY: the caller hands the task over; `next` is ours under the lock.
            unsafe { *task.header().as_ref().next.get() = None };
            match list.last.replace(task) {
                // SAFETY: the task is in our list, so its `next` is ours under the lock.
                Some(last) => unsafe { *last.header().as_ref().next.get() = Some(task) },
                None => list.first = Some(task),
            }
        }
        // Ordering: SeqCst, as in `len`.
        self.length.fetch_add(tasks.len(), Ordering::SeqCst);
    }

    /// Adds the tasks in front of all others, in their order.
    pub(crate) fn push_batch_first(&self, tasks: &[Task]) {
        let mut list = self.list.lock().expect("nothing panics under this lock");
        if list.is_closed {
            return;
        }
        for &task in tasks.iter().rev() {
            // SAFETY: the caller hands the task over; `next` is ours under the lock.
            unsafe { *task.header().as_ref().next.get() = list.first };
            list.first = Some(task);
            list.last.get_or_insert(task);
        }
        // Ordering: SeqCst, as in `len`.
        self.length.fetch_add(tasks.len(), Ordering::SeqCst);
    }

    /// Forgets all tasks, and touches none from now on.
    pub(crate) fn close(&self) {
        let mut list = self.list.lock().expect("nothing panics under this lock");
        *list = List {
            is_closed: true,
            ..List::default()
        };
        // Ordering: SeqCst, as in `len`.
        self.length.store(0, Ordering::SeqCst);
    }

    /// Takes the oldest task, and passes up to `extra` more to `keep`.
    pub(crate) fn pop_batch(&self, extra: usize, mut keep: impl FnMut(Task)) -> Option<Task> {
        if self.len() == 0 {
            return None;
        }
        let mut list = self.list.lock().expect("nothing panics under this lock");
        let first = list.pop()?;
        let mut taken = 1;
        while taken <= extra {
            let Some(task) = list.pop() else { break };
            keep(task);
            taken += 1;
        }
        // Ordering: SeqCst, as in `len`.
        self.length.fetch_sub(taken, Ordering::SeqCst);
        Some(first)
    }
}

impl List {
    fn pop(&mut self) -> Option<Task> {
        let first = self.first?;
        // SAFETY: it is in our list, so its `next` is ours under the lock.
        self.first = unsafe { (*first.header().as_ref().next.get()).take() };
        if self.first.is_none() {
            self.last = None;
        }
        Some(first)
    }
}
