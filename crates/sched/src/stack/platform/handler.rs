//! The signal handler: traces the stack of the thread that it interrupts, if that thread was asked.

use std::{
    ffi::{c_int, c_void},
    io, mem, ptr,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{Thread, untraceable::Untraceable};
use crate::stack::{
    StackError,
    exchange::{Exchange, FRAMES_MAX},
};

pub(super) const SIGNAL: c_int = libc::SIGURG;

type PlainHandler = extern "C" fn(c_int);
type InformedHandler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The handler's data, complete before it is installed.
struct Equipment {
    exchange: Exchange,
    untraceable: Untraceable,
    previous: libc::sigaction,
}

static EQUIPMENT: OnceLock<Equipment> = OnceLock::new();
static IS_INSTALLED: Mutex<bool> = Mutex::new(false);

/// Installs the handler at the first call; it stays until the process exits.
pub(super) fn install() -> Result<&'static Exchange, StackError> {
    let mut is_installed = IS_INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let equipment = match EQUIPMENT.get() {
        Some(equipment) => equipment,
        None => {
            let address = on_signal as *const () as usize;
            let untraceable = Untraceable::find(address).ok_or(StackError::NotSupported)?;
            let previous = exchange_action(None).map_err(StackError::NotInstalled)?;
            EQUIPMENT.get_or_init(|| Equipment {
                exchange: Exchange::new(),
                untraceable,
                previous,
            })
        }
    };
    if !*is_installed {
        // The unwinder's first call initialises tables and binds symbols, which a handler must not do.
        Frames::starting_at(0).trace();
        let action = action_after(&equipment.previous);
        exchange_action(Some(&action)).map_err(StackError::NotInstalled)?;
        *is_installed = true;
    }
    Ok(&equipment.exchange)
}

fn action_after(previous: &libc::sigaction) -> libc::sigaction {
    let mut action = *previous;
    action.sa_sigaction = on_signal as *const () as usize;
    // A previous handler that needs the alternate stack may run on threads whose own stack is too small for any handler,
    // such as those of goroutines.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | (previous.sa_flags & libc::SA_ONSTACK);
    action
}

/// Sets `action`, if there is one; returns the previous action.
fn exchange_action(action: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: integers and an optional function; zero is a valid value of each.
    let mut previous = unsafe { mem::zeroed::<libc::sigaction>() };
    let action = action.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both are null or valid, and only `on_signal` is ever set.
    let status = unsafe { libc::sigaction(SIGNAL, action, &raw mut previous) };
    if status == 0 {
        Ok(previous)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Runs on any interrupted thread, anywhere in its code: see the rules in `stack`.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(equipment) = EQUIPMENT.get() else {
        return;
    };
    // SAFETY: errno belongs to this thread, and does not move.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno_before = unsafe { *errno };
    if let Some(request) = equipment.exchange.request_for(Thread::current().0) {
        // SAFETY: the kernel passes the interrupted context to a handler with SA_SIGINFO.
        let interrupted = unsafe { interrupted_at(context.cast()) };
        // Otherwise the capturer reminds us.
        if !equipment.untraceable.contains(interrupted) {
            let mut frames = Frames::starting_at(interrupted);
            frames.trace();
            equipment.exchange.answer(request, frames.as_slice());
        }
    }
    // Always, because another sender's signal may have merged with ours.
    call_previous(&equipment.previous, signal, info, context);
    // SAFETY: as above.
    unsafe { *errno = errno_before };
}

fn call_previous(
    previous: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let address = previous.sa_sigaction;
    if address == libc::SIG_DFL || address == libc::SIG_IGN {
        // The default is to ignore it.
        return;
    }
    let address = ptr::with_exposed_provenance::<()>(address);
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler installed with SA_SIGINFO has this type.
        let handler = unsafe { mem::transmute::<*const (), InformedHandler>(address) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler installed without SA_SIGINFO has this type.
        let handler = unsafe { mem::transmute::<*const (), PlainHandler>(address) };
        handler(signal);
    }
}

/// # Safety
///
/// The kernel passed `context` to a signal handler that has not returned.
unsafe fn interrupted_at(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller's promise.
    let machine = unsafe { &(*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let address = machine.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    let address = machine.pc;
    address as usize
}

/// Instruction addresses from an interrupted one outwards, on the handler's own stack.
struct Frames {
    addresses: [usize; FRAMES_MAX],
    count: usize,
}

impl Frames {
    fn starting_at(interrupted: usize) -> Self {
        let mut addresses = [0; FRAMES_MAX];
        addresses[0] = interrupted;
        Self {
            addresses,
            count: 1,
        }
    }

    /// Adds the callers of the interrupted code; the frames before it are the handler's.
    fn trace(&mut self) {
        let interrupted = self.addresses[0];
        let mut is_past_handler = false;
        // SAFETY: on Linux this is `_Unwind_Backtrace`, which any number of threads may run at once. The crate's lock, for
        // which a handler must not wait, is for other platforms.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let address = frame.ip().addr();
                if address == 0 {
                    // The system's mark outside a thread's first function.
                    return false;
                }
                if is_past_handler && let Some(next) = self.addresses.get_mut(self.count) {
                    *next = address;
                    self.count += 1;
                }
                is_past_handler |= address == interrupted;
                self.count < FRAMES_MAX
            });
        }
    }

    fn as_slice(&self) -> &[usize] {
        &self.addresses[..self.count]
    }
}
