//! The nest: where all processes are born, and released together.

use std::sync::Arc;

use freeboard::{Actor, Context, Handler, System, meter::clock};

use super::{
    native::NativeCall,
    plan::{Plan, YieldKind},
    process::{Process, Repeat},
    tally::{Event, Release, Tally},
};
use crate::processor;

/// Bears and releases them all.
#[derive(Debug)]
pub(crate) struct Hatch;

/// As an actor, all its processes are born on the worker that runs it.
#[derive(Debug)]
pub(crate) struct Nest {
    pub(crate) procs: u32,
    pub(crate) repeats: u32,
    pub(crate) native: NativeCall,
    pub(crate) spin: u64,
    pub(crate) yields: YieldKind,
    pub(crate) tally: Arc<Tally>,
}

impl Nest {
    /// With the processes of a plan.
    pub(crate) fn new(plan: &Plan, tally: &Arc<Tally>) -> Self {
        Self {
            procs: plan.procs,
            repeats: plan.repeats,
            native: plan.native_call(),
            spin: plan.spin,
            yields: plan.yields,
            tally: tally.clone(),
        }
    }

    /// Bears them wherever the caller is, then releases them all.
    pub(crate) fn hatch(&self, system: &System) {
        let processes: Vec<_> = (0..self.procs)
            .map(|number| {
                system.spawn(Process {
                    number,
                    left: self.repeats,
                    native: self.native.clone(),
                    spin: self.spin,
                    yields: self.yields,
                    tally: self.tally.clone(),
                })
            })
            .collect();
        self.tally.tell(Event::Born);
        self.tally.release(Release {
            processor_time: processor::used(),
            workers: system.workers_snapshot(),
            at_ns: clock::now_ns(),
        });
        self.tally.tell(Event::Released);
        for process in processes {
            // Refused only if it has ended, and then it has said so itself.
            let _ = process.tell(Repeat);
        }
    }
}

impl Actor for Nest {}

impl Handler<Hatch> for Nest {
    type Reply = ();

    fn handle(&mut self, _msg: Hatch, cx: &mut Context<Self>) {
        self.hatch(&cx.system());
        cx.stop();
    }
}
