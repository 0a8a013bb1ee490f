//! A deque behind a lock: the simplest thing that works, and so the baseline of all others.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::channel_threads::Channel;

pub struct MutexVecDeque;

/// Both ends of the queue.
pub struct Queue<T>(Arc<Shared<T>>);

struct Shared<T> {
    messages: Mutex<VecDeque<T>>,
    filled: Condvar,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.0
            .messages
            .lock()
            .expect("nobody panics while it holds the lock")
    }
}

impl Channel for MutexVecDeque {
    type Sender<T: Send + 'static> = Queue<T>;
    type Receiver<T: Send + 'static> = Queue<T>;

    fn open<T: Send + 'static>() -> (Queue<T>, Queue<T>) {
        let queue = Queue(Arc::new(Shared {
            messages: Mutex::new(VecDeque::new()),
            filled: Condvar::new(),
        }));
        (queue.clone(), queue)
    }

    fn open_bounded<T: Send + 'static>(_capacity: usize) -> Option<(Queue<T>, Queue<T>)> {
        None
    }

    fn send<T: Send + 'static>(sender: &Queue<T>, message: T) {
        let mut messages = sender.lock();
        let was_empty = messages.is_empty();
        messages.push_back(message);
        drop(messages);
        // With one receiver only the first message of a batch can find it asleep.
        if was_empty {
            sender.0.filled.notify_one();
        }
    }

    fn receive<T: Send + 'static>(receiver: &Queue<T>) -> T {
        let mut messages = receiver.lock();
        loop {
            match messages.pop_front() {
                Some(message) => return message,
                None => {
                    messages = receiver
                        .0
                        .filled
                        .wait(messages)
                        .expect("nobody panics while it holds the lock");
                }
            }
        }
    }
}
