//! Panics on a thread that runs a world. The run reports them, so they are not printed.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::VecDeque,
    panic::{self, PanicHookInfo},
    sync::Once,
};

/// Panics that are kept. Handlers may panic between the panic of a test and its report.
const KEPT_MAX: usize = 16;

/// The text of a second panic that leaves a destructor. The process ends behind it.
const FATAL: &str = "panic in a destructor during cleanup";

struct Panicked {
    at: String,
    text: String,
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static KEPT: RefCell<VecDeque<Panicked>> = const { RefCell::new(VecDeque::new()) };
}

/// While it exists, panics on this thread are kept and not printed.
pub(crate) struct Quiet(bool);

impl Quiet {
    pub(crate) fn enter() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let others = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                    keep(info);
                } else {
                    others(info);
                }
            }));
        });
        KEPT.take();
        Self(IS_QUIET.replace(true))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}

#[expect(clippy::print_stderr, reason = "the process ends without a report")]
fn keep(info: &PanicHookInfo<'_>) {
    let text = panic_text(info.payload());
    KEPT.with_borrow_mut(|kept| {
        if text == FATAL {
            for Panicked { at, text } in kept.iter() {
                eprintln!("panicked at {at}: {text}");
            }
            eprintln!("{FATAL}");
        }
        let at = info.location().map(ToString::to_string);
        let at = at.unwrap_or_default();
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Panicked { at, text });
    });
}

/// The file, line and column of the panic with this text.
pub(crate) fn location(text: &str) -> Option<String> {
    KEPT.with_borrow(|kept| {
        let panicked = kept.iter().find(|it| it.text == text)?;
        Some(panicked.at.clone())
    })
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}
