//! The exchange between capturer and handler under loom.

use loom::{sync::Arc, thread};

use super::{StackError, exchange::Exchange};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Unless LOOM_MAX_PREEMPTIONS says otherwise.
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// One run of the handler on `thread`; both frames say which run it was.
fn handle(exchange: &Exchange, thread: u32, run: usize) {
    if let Some(request) = exchange.request_for(thread) {
        exchange.answer(request, &[run, run]);
    }
}

/// Asks once and gives up at the first poll: a later answer is late.
fn ask(exchange: &Exchange, thread: u32) -> Result<Vec<usize>, StackError> {
    exchange.ask(thread, || {
        thread::yield_now();
        Err(StackError::TimedOut)
    })
}

#[test]
fn late_answers_neither_tear_nor_stand_for_another_thread() {
    check(3, || {
        let exchange = Arc::new(Exchange::new());
        let handlers = [1, 2].map(|thread| {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || {
                for run in 0..2 {
                    handle(&exchange, thread, thread as usize * 10 + run);
                }
            })
        });
        for thread in [1, 2, 1] {
            if let Ok(frames) = ask(&exchange, thread) {
                assert_eq!(frames.len(), 2);
                assert_eq!(frames[0], frames[1], "torn");
                assert_eq!(frames[0] / 10, thread as usize, "another thread's answer");
            }
        }
        for handler in handlers {
            handler.join().unwrap();
        }
        let answered = exchange.ask(3, || {
            handle(&exchange, 3, 30);
            Ok(())
        });
        assert_eq!(answered.unwrap(), [30, 30]);
    });
}

#[test]
fn of_two_capturers_each_gets_its_own_answer_or_busy() {
    check(3, || {
        let exchange = Arc::new(Exchange::new());
        let capture = |exchange: &Exchange, thread: u32| {
            let answered = exchange.ask(thread, || {
                handle(exchange, thread, thread as usize);
                Ok(())
            });
            match answered {
                Ok(frames) => assert_eq!(frames, [thread as usize; 2]),
                Err(error) => assert!(matches!(error, StackError::Busy), "{error}"),
            }
        };
        let other = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || capture(&exchange, 1))
        };
        capture(&exchange, 2);
        other.join().unwrap();
    });
}
