//! What a task sees of the thread that runs it.

use freeboard_meter::clock;

use crate::{
    budget::Budget, label::RunLabel, pinned::PinnedThread, shared::Shared, worker::Worker,
};

#[derive(Clone, Copy, Debug)]
enum Host<'a> {
    Worker(&'a Worker),
    Pinned(&'a PinnedThread<'a>),
}

/// What a task sees of the thread that runs it: a worker, or one of its own.
#[derive(Debug)]
pub struct RunContext<'a> {
    host: Host<'a>,
    /// When the run began, if the clock was read for another reason; else 0.
    began_ns: u64,
    looked_ns: u64,
    is_time_up: bool,
}

impl<'a> RunContext<'a> {
    pub(crate) fn worker(worker: &'a Worker, began_ns: u64) -> Self {
        Self {
            host: Host::Worker(worker),
            began_ns,
            looked_ns: 0,
            is_time_up: false,
        }
    }

    pub(crate) fn pinned(thread: &'a PinnedThread<'a>) -> Self {
        Self {
            host: Host::Pinned(thread),
            began_ns: 0,
            looked_ns: 0,
            is_time_up: false,
        }
    }

    #[inline]
    fn shared(&self) -> &'a Shared {
        match self.host {
            Host::Worker(worker) => worker.shared(),
            Host::Pinned(thread) => thread.shared(),
        }
    }

    /// A whole budget under the scheduler's limits.
    #[inline]
    pub fn budget(&self) -> Budget<'a> {
        let shared = self.shared();
        let budget = Budget::new(shared.settings.budget, self.label(), &shared.tick);
        match self.host {
            Host::Worker(worker) if worker.has_long_runs() => budget.watchful(clock::now_ns()),
            _ if self.began_ns > 0 => budget.watchful(self.began_ns),
            _ => budget,
        }
    }

    /// A further budget for a task that need not make way. To those who watch it is a new run.
    pub fn renew(&mut self) -> Budget<'a> {
        self.began_ns = 0;
        if let Host::Worker(worker) = self.host {
            worker.seat().runs.bump(1);
        }
        self.budget()
    }

    /// The label that says what runs here.
    #[inline]
    pub fn label(&self) -> &'a RunLabel {
        match self.host {
            Host::Worker(worker) => &worker.seat().label,
            Host::Pinned(thread) => thread.label(),
        }
    }

    /// Whether other tasks wait for this worker, or a driver that it looks at, so that a task whose budget
    /// is spent should make way.
    #[inline]
    pub fn is_wanted_elsewhere(&self) -> bool {
        match self.host {
            Host::Worker(worker) => {
                let shared = worker.shared();
                worker.seat().depth() > 0
                    || shared.injector.len() > 0
                    || shared.found.len() > 0
                    || worker.attends()
                    || !worker.is_seated()
                    || shared.is_shut_down()
            }
            Host::Pinned(thread) => thread.is_called_off(),
        }
    }

    /// On a thread of its own, which would have nothing else to do: looks on as its wait strategy
    /// says, until `is_ready`. `false` if the task is to rest, on a worker at once.
    #[inline]
    pub fn wait(&self, is_ready: impl FnMut() -> bool) -> bool {
        match self.host {
            Host::Worker(_) => false,
            Host::Pinned(thread) => thread.wait(is_ready),
        }
    }

    /// The task is over. A thread of its own ends with it.
    pub fn end(&self) {
        if let Host::Pinned(thread) = self.host {
            thread.end();
        }
    }

    /// Tells the worker that the run is over and what the clock said when it was last read.
    #[inline]
    pub fn account(&mut self, budget: &Budget<'_>) {
        self.looked_ns = self.looked_ns.max(budget.looked_ns());
        self.is_time_up |= budget.is_time_up();
    }

    /// Whether the run used up the time of a budget.
    pub(crate) fn is_time_up(&self) -> bool {
        self.is_time_up
    }

    pub(crate) fn looked_ns(&self) -> u64 {
        self.looked_ns
    }
}
