//! The processor time that this process, its threads and its children have used, where the system tells it.

use std::{collections::HashMap, fs, time::Duration};

/// Of all its threads together, since it started.
pub(crate) fn used() -> Option<Duration> {
    clock::read(clock::Clock::Process)
}

/// Of the calling thread, since it started.
pub(crate) fn used_by_thread() -> Option<Duration> {
    clock::read(clock::Clock::Thread)
}

mod clock {
    use std::time::Duration;

    #[derive(Clone, Copy)]
    pub(super) enum Clock {
        Process,
        Thread,
    }

    #[cfg(unix)]
    pub(super) fn read(clock: Clock) -> Option<Duration> {
        use rustix::time::{ClockId, clock_gettime};

        let time = clock_gettime(match clock {
            Clock::Process => ClockId::ProcessCPUTime,
            Clock::Thread => ClockId::ThreadCPUTime,
        });
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
        Some(Duration::new(seconds, nanoseconds))
    }

    #[cfg(not(unix))]
    pub(super) fn read(_: Clock) -> Option<Duration> {
        None
    }
}

/// Clock ticks a second in `/proc`, on all processors that this program runs on.
#[cfg(target_os = "linux")]
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds that another process has used so far, where the system tells it.
#[cfg(target_os = "linux")]
pub(crate) fn seconds_of(process: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let fields = text.rsplit_once(')')?.1;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Option<Vec<f64>> = ticks.map(|it| it.parse().ok()).collect();
    Some(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn seconds_of(_: u32) -> Option<f64> {
    None
}

/// What a thread has used, and how long it has waited for a processor although it could run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    pub(crate) name: String,
    pub(crate) used: Duration,
    pub(crate) waited: Duration,
}

/// Of all threads of this process.
pub(crate) fn threads() -> Option<Vec<ThreadTime>> {
    let mut threads = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let read = |name| fs::read_to_string(task.path().join(name));
        // It may have ended meanwhile.
        if let (Ok(name), Ok(times)) = (read("comm"), read("schedstat")) {
            let mut times = times.split(' ').map(str::parse);
            let (Some(Ok(used)), Some(Ok(waited))) = (times.next(), times.next()) else {
                return None;
            };
            threads.push(ThreadTime {
                name: name.trim_end().to_owned(),
                used: Duration::from_nanos(used),
                waited: Duration::from_nanos(waited),
            });
        }
    }
    (!threads.is_empty()).then_some(threads)
}

/// Of the processes of this name that were started by this process or by one that it has started.
pub(crate) fn used_by_children(name: &str) -> Option<Duration> {
    let mut parents = HashMap::new();
    let mut named = Vec::new();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let number = process.file_name().to_str().and_then(|it| it.parse().ok());
        let stat = fs::read_to_string(process.path().join("stat"));
        // The name, in parentheses, may contain anything: 7 (a b) S 1 ...
        let parts = stat.as_ref().ok().and_then(|stat| stat.rsplit_once(") "));
        if let (Some(number), Some((head, fields))) = (number, parts) {
            let parent = fields.split(' ').nth(1).and_then(|it| it.parse().ok());
            parents.insert(number, parent.unwrap_or(0));
            if head.split_once('(').is_some_and(|(_, comm)| comm == name) {
                named.push(number);
            }
        }
    }
    let own = std::process::id();
    let is_child = |mut number: u32| {
        // A process that ended meanwhile could make a circle.
        (0..64).any(|_| {
            number = parents.get(&number).copied().unwrap_or(0);
            number == own
        })
    };
    let children = named.into_iter().filter(|number| is_child(*number));
    let seconds: Vec<f64> = children.filter_map(seconds_of).collect();
    (!seconds.is_empty()).then(|| Duration::from_secs_f64(seconds.iter().sum()))
}

/// Seconds used since `earlier`, if both readings could be made.
pub(crate) fn seconds_since(earlier: Option<Duration>) -> Option<f64> {
    Some(used()?.saturating_sub(earlier?).as_secs_f64())
}

/// Processors that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_used_grows_by_what_is_used() {
        let before = used();
        if before.is_none() {
            return;
        }
        while seconds_since(before).is_some_and(|seconds| seconds < 0.001) {
            std::hint::spin_loop();
        }
        assert!(used() > before);
        // Between two readings of the other clock, but for a tick each of user and system time.
        let seconds = |time: Option<Duration>| time.map_or(0.0, |it| it.as_secs_f64());
        let least = seconds(used()) - 2.0 / 100.0;
        let own = seconds_of(std::process::id());
        let most = seconds(used()) + 2.0 / 100.0;
        assert!(
            own.is_none_or(|own| (least..=most).contains(&own)),
            "{least} {own:?} {most}"
        );
        assert_eq!(seconds_since(None), None);
    }
}
