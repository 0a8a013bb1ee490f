//! A program with its own handler of the signal keeps it, and errno. Needs a process of its own, because a process has one
//! handler.
#![cfg(all(
    feature = "stacks",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(loom)
))]

use std::{
    io, mem, ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use freeboard_sched::StackTarget;

static CALLS: AtomicUsize = AtomicUsize::new(0);

fn set_errno(code: i32) {
    // SAFETY: errno is the thread's own.
    unsafe { *libc::__errno_location() = code };
}

extern "C" fn count_and_spoil_errno(_signal: libc::c_int) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    set_errno(libc::EXDEV);
}

fn install_own_handler() {
    // SAFETY: zero is valid for each field; the handler has the type that flags without SA_SIGINFO
    // ask for, and calls nothing but atomics.
    let status = unsafe {
        let mut action = mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = count_and_spoil_errno as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGURG, &raw const action, ptr::null_mut())
    };
    assert_eq!(status, 0);
}

/// Whether errno stays what it was set to.
#[inline(never)]
fn keeps_errno(stop: &AtomicBool) -> bool {
    set_errno(libc::EDOM);
    while !stop.load(Ordering::Relaxed) {
        if io::Error::last_os_error().raw_os_error() != Some(libc::EDOM) {
            return false;
        }
    }
    true
}

#[test]
fn a_handler_that_was_there_before_is_called_and_errno_is_preserved() {
    install_own_handler();
    let stop = Arc::new(AtomicBool::new(false));
    let (target_sender, target_receiver) = mpsc::channel();
    let thread = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            target_sender.send(StackTarget::current()).unwrap();
            keeps_errno(&stop)
        }
    });
    let target = target_receiver.recv().unwrap();
    for captures in 1..=100 {
        target.capture(Duration::from_secs(20)).unwrap();
        assert!(CALLS.load(Ordering::Relaxed) >= captures - 1);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().unwrap());
    assert!(CALLS.load(Ordering::Relaxed) >= 100);
}
