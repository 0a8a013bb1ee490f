//! A process: calls native code, tells itself to go on, and stops after its last repetition.

use std::sync::Arc;

use freeboard::{Actor, Context, Handler};

use super::{native::NativeCall, plan::YieldKind, tally::Tally};

/// One repetition.
#[derive(Debug)]
pub(crate) struct Repeat;

/// One of the scene's processes.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u32,
    /// Repetitions to come.
    pub(crate) left: u32,
    pub(crate) native: NativeCall,
    pub(crate) spin: u64,
    pub(crate) yields: YieldKind,
    pub(crate) tally: Arc<Tally>,
}

impl Actor for Process {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.tally.end_process();
    }
}

impl Handler<Repeat> for Process {
    type Reply = ();

    fn handle(&mut self, _msg: Repeat, cx: &mut Context<Self>) {
        loop {
            if self.tally.must_stop() {
                cx.stop();
                return;
            }
            let worker = cx.worker_index();
            let native_ns = self.native.call(self.spin);
            self.left -= 1;
            self.tally.add_call(worker, native_ns);
            if self.left == 0 {
                self.tally.finish(self.number);
                cx.stop();
                return;
            }
            if self.yields == YieldKind::Each {
                break;
            }
        }
        if cx.actor_ref().tell(Repeat).is_err() {
            cx.stop();
        }
    }
}
