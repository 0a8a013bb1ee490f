//! Call stacks of threads that wait, spin, unwind, answer late or have terminated.

use std::{
    backtrace::Backtrace,
    hint::black_box,
    panic, ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use freeboard_sched::{StackError, StackTarget};

/// Far more than any answer takes, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A thread that is in `function` until `stop` is set.
struct Runner {
    target: StackTarget,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Runner {
    fn start(function: fn(&AtomicBool)) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (target_sender, target_receiver) = mpsc::channel();
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                target_sender.send(StackTarget::current()).unwrap();
                function(&stop);
            }
        });
        let target = target_receiver.recv().unwrap();
        Self {
            target,
            stop,
            thread,
        }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// The stack, as soon as no other test's capture is in the way.
fn capture(target: StackTarget) -> Result<String, StackError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match target.capture(PATIENCE) {
            Err(StackError::Busy) if Instant::now() < deadline => thread::yield_now(),
            captured => return captured,
        }
    }
}

/// The first stack that names `function`, which the thread enters sooner or later.
fn capture_in(target: StackTarget, function: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = capture(target).unwrap();
        if text.contains(function) {
            return text;
        }
        assert!(Instant::now() < deadline, "no {function} in\n{text}");
        thread::yield_now();
    }
}

fn check_no_machinery(text: &str) {
    for name in ["on_signal", "trace_unsynchronized", "__restore_rt"] {
        assert!(!text.contains(name), "{name} in\n{text}");
    }
}

#[inline(never)]
fn waits_for_a_message(receiver: &Receiver<()>) {
    let _ = black_box(receiver.recv());
}

#[inline(never)]
fn spins(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn turns(stop: &AtomicBool) {
    while !black_box(stop).load(Ordering::Relaxed) {
        black_box(0);
    }
}

#[inline(never)]
fn reads_the_clock(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        black_box(Instant::now());
    }
}

#[inline(never)]
fn allocates_and_unwinds(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let caught = panic::catch_unwind(|| {
            let held = black_box(Box::new([1_u8; 100]));
            // Without the hook, which would print.
            panic::resume_unwind(Box::new(held.len()));
        });
        assert!(caught.is_err());
        drop(black_box(Backtrace::force_capture()));
    }
}

#[inline(never)]
fn recurses(depth: usize, stop: &AtomicBool) {
    if depth == 0 {
        spins(stop);
    } else {
        recurses(depth - 1, stop);
    }
    black_box(depth);
}

#[test]
fn a_waiting_thread_shows_where_it_waits_and_goes_on_waiting() {
    let (target_sender, target_receiver) = mpsc::channel();
    let (message_sender, message_receiver) = mpsc::channel();
    let waiter = thread::spawn(move || {
        target_sender.send(StackTarget::current()).unwrap();
        waits_for_a_message(&message_receiver);
    });
    let target = target_receiver.recv().unwrap();
    let text = capture_in(target, "waits_for_a_message");
    assert!(text.contains("supported.rs:"), "{text}");
    check_no_machinery(&text);
    assert!(!waiter.is_finished());
    message_sender.send(()).unwrap();
    waiter.join().unwrap();
}

#[test]
fn a_spinning_thread_shows_where_it_spins() {
    let runner = Runner::start(spins);
    let text = capture_in(runner.target, "supported::spins");
    check_no_machinery(&text);
    assert!(!text.ends_with('\n') && !text.contains("at 0x0"), "{text}");
    runner.stop();
}

#[test]
fn a_thread_that_is_mostly_in_the_kernels_clock_code_is_caught_outside_it() {
    let runner = Runner::start(reads_the_clock);
    capture_in(runner.target, "reads_the_clock");
    runner.stop();
}

#[test]
fn a_thread_can_capture_itself() {
    let text = capture(StackTarget::current()).unwrap();
    assert!(text.contains("a_thread_can_capture_itself"), "{text}");
    check_no_machinery(&text);
}

#[test]
fn of_a_deep_stack_the_outer_callers_are_left_out() {
    let runner = Runner::start(|stop| recurses(200, stop));
    let text = capture_in(runner.target, "left out");
    assert!(text.contains("supported::recurses"), "{text}");
    runner.stop();
}

#[test]
fn a_thread_that_ended_is_an_error() {
    let target = thread::spawn(StackTarget::current).join().unwrap();
    match capture(target) {
        Err(StackError::Signal(error)) => assert_eq!(error.raw_os_error(), Some(libc::ESRCH)),
        other => panic!("{other:?}"),
    }
}

fn set_blocked(how: libc::c_int) {
    // SAFETY: the set is initialised by sigemptyset before it is used; null asks for no old set.
    let status = unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGURG);
        libc::pthread_sigmask(how, &raw const set, ptr::null_mut())
    };
    assert_eq!(status, 0);
}

#[test]
fn a_thread_that_cannot_answer_times_out_and_its_late_signal_does_no_harm() {
    let (target_sender, target_receiver) = mpsc::channel();
    let (message_sender, message_receiver) = mpsc::channel();
    let waiter = thread::spawn(move || {
        set_blocked(libc::SIG_BLOCK);
        target_sender.send(StackTarget::current()).unwrap();
        message_receiver.recv().unwrap();
        set_blocked(libc::SIG_UNBLOCK);
        waits_for_a_message(&message_receiver);
    });
    let target = target_receiver.recv().unwrap();
    let timed_out = loop {
        match target.capture(Duration::from_millis(5)) {
            Err(StackError::Busy) => thread::yield_now(),
            captured => break captured,
        }
    };
    assert!(
        matches!(timed_out, Err(StackError::TimedOut)),
        "{timed_out:?}"
    );
    message_sender.send(()).unwrap();
    capture_in(target, "waits_for_a_message");
    message_sender.send(()).unwrap();
    waiter.join().unwrap();
}

#[test]
fn two_capturers_at_once_get_each_their_own_thread() {
    let capturers = [
        (
            spins as fn(&AtomicBool),
            "supported::spins",
            "supported::turns",
        ),
        (turns, "supported::turns", "supported::spins"),
    ]
    .map(|(function, own, others)| {
        thread::spawn(move || {
            let runner = Runner::start(function);
            capture_in(runner.target, own);
            for _ in 0..100 {
                let text = capture(runner.target).unwrap();
                assert!(text.contains(own) && !text.contains(others), "{text}");
            }
            runner.stop();
        })
    });
    for capturer in capturers {
        capturer.join().unwrap();
    }
}

#[test]
fn a_thread_that_allocates_and_unwinds_is_neither_stopped_nor_crashed() {
    const CAPTURES_MAX: usize = 2_000;
    let runner = Runner::start(allocates_and_unwinds);
    capture_in(runner.target, "allocates_and_unwinds");
    let deadline = Instant::now() + Duration::from_secs(2);
    for _ in 0..CAPTURES_MAX {
        if Instant::now() >= deadline {
            break;
        }
        let text = capture(runner.target).unwrap();
        assert!(!text.contains("on_signal"), "{text}");
    }
    runner.stop();
}

/// Libraries that are not loaded otherwise, so that each turn maps and unmaps them.
const LIBRARIES: [&std::ffi::CStr; 4] = [
    c"libthread_db.so.1",
    c"libresolv.so.2",
    c"libBrokenLocale.so.1",
    c"libanl.so.1",
];

#[inline(never)]
fn loads_and_unloads(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut loaded = 0;
        for library in LIBRARIES {
            // SAFETY: a name that ends in zero, of a part of glibc whose initialisers do nothing.
            let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
            if !handle.is_null() {
                loaded += 1;
                // SAFETY: it was just opened, and nothing of it is used.
                unsafe { libc::dlclose(handle) };
            }
        }
        assert!(loaded > 0, "glibc has one of these");
    }
}

/// Stacks are captured of threads that panic and catch, while these or others change the list of loaded
/// libraries that the unwinder reads.
#[test]
fn threads_that_unwind_and_load_libraries_are_neither_stopped_nor_crashed() {
    const CAPTURES_MAX: usize = 3_000;
    let functions: [fn(&AtomicBool); 3] =
        [loads_and_unloads, allocates_and_unwinds, loads_and_unloads];
    let runners = functions.map(Runner::start);
    let deadline = Instant::now() + Duration::from_secs(3);
    let (mut captures, mut in_loader) = (0, 0);
    while captures < CAPTURES_MAX && Instant::now() < deadline {
        let text = capture(runners[captures % runners.len()].target).unwrap();
        assert!(!text.contains("on_signal"), "{text}");
        in_loader += usize::from(text.contains("loads_and_unloads"));
        captures += 1;
    }
    assert!(in_loader > 0, "the loader was interrupted");
    for runner in runners {
        runner.stop();
    }
}
