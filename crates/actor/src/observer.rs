//! Passes the findings of the scheduler's monitor to the log and to the user's observers.

use freeboard_meter::{CurrentRun, LongRunSnapshot};
use freeboard_sched::{Collapse, Observer};

use crate::catch_panic;

type Told<T> = Box<dyn Fn(&T) + Send + Sync>;

/// Writes `tracing` events and calls the observers. Their panics are caught.
#[derive(Default)]
pub(crate) struct Observers {
    pub(crate) on_long_run: Option<Told<LongRunSnapshot>>,
    pub(crate) on_collapse: Option<Told<Collapse>>,
}

impl Observer for Observers {
    fn long_run(&self, run: &LongRunSnapshot) {
        catch_panic::call(|| {
            tracing::warn!(
                actor = run.run.actor,
                actor_type = run.run.actor_type,
                message_type = run.run.message_type,
                elapsed_ns = run.elapsed_ns,
                cpu_share = run.cpu_share,
                stack = run.stack,
                "a handler {} for long",
                if run.is_blocked { "blocks" } else { "computes" },
            );
        });
        tell(self.on_long_run.as_ref(), run);
    }

    fn collapse(&self, collapse: &Collapse) {
        catch_panic::call(|| {
            tracing::error!(
                sleeping = collapse.sleeping,
                queued = collapse.queued,
                detect_ns = collapse.detect_ns,
                "workers slept while there was work; one was woken",
            );
        });
        tell(self.on_collapse.as_ref(), collapse);
    }

    fn wait_strategy_panicked(&self, task: Option<CurrentRun>) {
        let run = task.unwrap_or_default();
        catch_panic::call(|| {
            tracing::error!(
                actor = run.actor,
                actor_type = run.actor_type,
                "a wait strategy panicked; its thread parks when idle from here on",
            );
        });
    }

    fn threads_grew(&self, threads: usize) {
        catch_panic::call(|| {
            tracing::warn!(
                threads,
                "the number of worker threads grew: handlers block; prefer async handlers",
            );
        });
    }

    fn all_blocked(&self, holders: &[CurrentRun]) {
        catch_panic::call(|| {
            let texts: Vec<_> = holders.iter().map(holder).collect();
            tracing::error!(
                holders = texts.join(", "),
                "all threads are blocked while actors wait, and no further thread can be had",
            );
        });
    }
}

/// One run as text: type, number and message.
fn holder(run: &CurrentRun) -> String {
    let message = match run.message_type.as_str() {
        "" => "no message",
        message => message,
    };
    format!("{} ({}) on {message}", run.actor_type, run.actor)
}

fn tell<T>(observer: Option<&Told<T>>, what: &T) {
    if let Some(observer) = observer
        && catch_panic::call(|| observer(what)).is_none()
    {
        catch_panic::call(|| tracing::error!("an observer of the scheduler panicked"));
    }
}
