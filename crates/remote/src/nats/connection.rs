//! The tasks of the engine's thread: the sender, the readers, and what follows the connection's state.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc as std_mpsc,
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, Event, Message, Request, RequestErrorKind, ServerAddr, ServerError,
    StatusCode, Subscriber, connection::State,
};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    select,
    sync::{broadcast, mpsc, oneshot, watch},
    task,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{Command, Link, NatsError, NatsOptions, OnEvent, Outgoing, Shared, add};
use crate::engine::{ConnectionEvent, Deliver, Incoming};

/// Commands that the sender takes at once.
const BATCH_COMMANDS: usize = 512;
/// Bytes that the sender hands over before it flushes, so that not much more is held than the bound.
const BATCH_BYTES: usize = 512 << 10;
/// async-nats drops events when too many come at once, so the connection's state is also polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Denials that a waiting request may not have seen yet.
const DENIALS_MAX: usize = 64;

/// Runs the engine until it is closed.
pub(super) async fn run(
    options: NatsOptions,
    addresses: Vec<ServerAddr>,
    connect_options: ConnectOptions,
    started: std_mpsc::Sender<Result<Arc<Shared>, NatsError>>,
) {
    let (events, has_events) = mpsc::unbounded_channel();
    let connect_options = connect_options.event_callback(move |event| {
        let _ = events.send(event);
        std::future::ready(())
    });
    let (commands, has_commands) = mpsc::unbounded_channel();
    let connected = timeout(options.connect_time, connect_options.connect(addresses)).await;
    let connected = match connected {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(options.connect_error(&error)),
        Err(_) => Err(options.error("no answer in time")),
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            // The caller waits for it.
            let _ = started.send(Err(error));
            return;
        }
    };
    let shared = Arc::new(Shared {
        client: client.clone(),
        runtime: Handle::current(),
        commands,
        link: watch::Sender::new(Link::default()),
        is_up: AtomicBool::new(false),
        is_closed: AtomicBool::new(false),
        held_bytes: AtomicUsize::new(0),
        held_bytes_max: options.held_bytes_max,
        wants_capacity: AtomicBool::new(false),
        denials: broadcast::Sender::new(DENIALS_MAX),
        denied: Mutex::default(),
        is_inbox_denied: AtomicBool::new(false),
        warned: Default::default(),
        on_events: Default::default(),
        counters: Default::default(),
        request_time: options.request_time,
        replicas: options.replicas,
    });
    task::spawn(follow(shared.clone(), has_events));
    if !options.retries_initial {
        let mut link = shared.link.subscribe();
        let is_up = timeout(options.connect_time, link.wait_for(|link| link.is_up)).await;
        if is_up.is_err() {
            let _ = started.send(Err(options.error("the server answers no request")));
            return;
        }
    }
    if started.send(Ok(shared.clone())).is_ok() {
        send_all(&shared, has_commands).await;
    }
}

/// Waits for something that only a connection can finish; `None` if that breaks.
pub(super) async fn while_up<T>(shared: &Shared, future: impl Future<Output = T>) -> Option<T> {
    let mut link = shared.link.subscribe();
    let number = link.borrow_and_update().number;
    let is_broken = link.wait_for(|link| !link.is_up || link.number != number);
    select! {
        biased;
        value = future => Some(value),
        _ = is_broken => None,
    }
}

/// The sender.
async fn send_all(shared: &Arc<Shared>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut batch = Vec::with_capacity(BATCH_COMMANDS);
    while commands.recv_many(&mut batch, BATCH_COMMANDS).await > 0 {
        let mut bytes = 0;
        for command in batch.drain(..) {
            match command {
                Command::Publish(outgoing) => {
                    bytes += outgoing.bytes();
                    publish(shared, outgoing).await;
                    if bytes >= BATCH_BYTES {
                        flush(shared, &mut bytes).await;
                    }
                }
                Command::Subscribe {
                    subject,
                    deliver,
                    ended,
                } => match shared.client.subscribe(subject.clone()).await {
                    Ok(subscriber) => {
                        let read = read(shared.clone(), subscriber, deliver, ended);
                        // async-nats drops messages of a full subscription, so its reader takes all that there are.
                        task::spawn(task::unconstrained(read));
                    }
                    Err(error) => tracing::error!(subject, %error, "cannot subscribe"),
                },
                Command::OnEvent(on_event) => add_on_event(shared, on_event),
                Command::Close { within, closed } => {
                    flush(shared, &mut bytes).await;
                    // The server has handled what it was sent, and the close cannot reset it.
                    let _ = timeout(within, while_up(shared, round_trip(shared))).await;
                    shared.link.send_modify(|link| link.is_up = false);
                    let _ = closed.send(());
                    return;
                }
            }
        }
        flush(shared, &mut bytes).await;
    }
}

async fn publish(shared: &Shared, outgoing: Outgoing) {
    if !shared.link.borrow().is_up {
        return add(&shared.counters.dropped, 1);
    }
    let Outgoing {
        subject,
        reply,
        payload,
    } = outgoing;
    let sent = match reply {
        Some(reply) => {
            shared
                .client
                .publish_with_reply(subject, reply, payload)
                .await
        }
        None => shared.client.publish(subject, payload).await,
    };
    if let Err(error) = sent {
        add(&shared.counters.dropped, 1);
        tracing::error!(%error, "a message was not sent");
    }
}

/// Waits until the socket has taken what was published, and releases its bytes.
async fn flush(shared: &Shared, bytes: &mut usize) {
    if *bytes > 0 {
        if shared.link.borrow().is_up {
            while_up(shared, shared.client.flush()).await;
        }
        shared.release(std::mem::take(bytes));
    }
}

fn add_on_event(shared: &Shared, on_event: OnEvent) {
    shared.on_events.lock().push(on_event.clone());
    let event = match shared.link.borrow().is_up {
        true => ConnectionEvent::Up,
        false => ConnectionEvent::Down,
    };
    shared.call(|| on_event(event));
}

/// The reader of a subscription.
async fn read(
    shared: Arc<Shared>,
    mut subscriber: Subscriber,
    deliver: Deliver,
    mut ended: oneshot::Receiver<()>,
) {
    loop {
        let message = select! {
            biased;
            _ = &mut ended => return,
            message = subscriber.next() => message,
        };
        let Some(message) = message else { return };
        add(&shared.counters.delivered, 1);
        add(&shared.counters.delivered_bytes, message.payload.len());
        shared.call(|| deliver(incoming(message)));
    }
}

fn incoming(message: Message) -> Incoming {
    let is_no_responders = message.status == Some(StatusCode::NO_RESPONDERS);
    Incoming {
        subject: message.subject.into_string(),
        reply: message.reply.map(async_nats::Subject::into_string),
        payload: message.payload,
        is_no_responders,
    }
}

/// Ends when the server has handled everything that was sent before: nobody listens to a new inbox, which the server says.
async fn round_trip(shared: &Shared) {
    let mut denials = shared.denials.subscribe();
    // The server denies the inbox of answers once: to the first request of a connection.
    while !shared.is_inbox_denied.load(Ordering::Relaxed) {
        let request = Request::new().timeout(Some(shared.request_time));
        let inbox = shared.client.new_inbox();
        let answer = select! {
            answer = shared.client.send_request(inbox, request) => answer,
            // Without a permission for inboxes that is the answer.
            _ = denials.recv() => return,
        };
        match answer.map_err(|error| error.kind()) {
            Ok(_) | Err(RequestErrorKind::NoResponders) => return,
            Err(_) => sleep(POLL_INTERVAL).await,
        }
    }
}

/// Follows the connection's state.
async fn follow(shared: Arc<Shared>, mut events: mpsc::UnboundedReceiver<Event>) {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (confirm, mut is_confirmed) = mpsc::unbounded_channel();
    // The number of the connection that exists, up or not yet.
    let mut number = 0;
    loop {
        select! {
            event = events.recv() => match event {
                Some(event) => handle(&shared, &event),
                None => return,
            },
            confirmed = is_confirmed.recv() => {
                if confirmed == Some(number) && is_connected(&shared.client) {
                    set_up(&shared, number);
                }
            }
            _ = ticks.tick() => {}
        }
        // Ordering: Relaxed, async-nats counts on this thread.
        let connects = shared.client.statistics().connects.load(Ordering::Relaxed);
        if connects != number || !is_connected(&shared.client) {
            set_down(&shared);
        }
        if connects != number && is_connected(&shared.client) {
            number = connects;
            shared.is_inbox_denied.store(false, Ordering::Relaxed);
            shared.counters.connects.store(number, Ordering::Relaxed);
            let (shared, confirm) = (shared.clone(), confirm.clone());
            task::spawn(async move {
                // If this connection breaks, the next one is confirmed by its own number.
                round_trip(&shared).await;
                let _ = confirm.send(number);
            });
        }
    }
}

fn is_connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}

fn set_up(shared: &Shared, number: u64) {
    // Ordering: SeqCst, rare.
    if shared.is_closed.load(Ordering::SeqCst) {
        return;
    }
    shared.link.send_modify(|link| {
        link.is_up = true;
        link.number = number;
    });
    // Ordering: Release pairs with the Acquire of `Shared::is_up`.
    shared.is_up.store(true, Ordering::Release);
    tracing::info!("connected to the NATS server");
    shared.tell(ConnectionEvent::Up);
}

fn set_down(shared: &Shared) {
    let was_up = shared
        .link
        .send_if_modified(|link| std::mem::take(&mut link.is_up));
    if was_up {
        // Ordering: Release as in `set_up`.
        shared.is_up.store(false, Ordering::Release);
        tracing::warn!("no connection to the NATS server");
        shared.tell(ConnectionEvent::Down);
    }
}

fn handle(shared: &Shared, event: &Event) {
    match event {
        Event::Connected | Event::Disconnected | Event::Draining | Event::Closed => {}
        Event::SlowConsumer(_) => {
            add(&shared.counters.slow_consumers, 1);
            shared.link.send_modify(|link| link.slow_consumers += 1);
            tracing::error!("messages were dropped: a subscription was full");
        }
        Event::ServerError(ServerError::Other(text)) => {
            tracing::warn!(text, "the NATS server refuses");
            if let Some(subject) = denied_subject(text) {
                add(&shared.counters.denied, 1);
                let is_inbox = subject.starts_with("_INBOX.");
                if text.contains("Subscription") && is_inbox {
                    // Ordering: Relaxed, both sides run on this thread.
                    shared.is_inbox_denied.store(true, Ordering::Relaxed);
                }
                let subject: Arc<str> = subject.into();
                if !is_inbox {
                    shared.denied.lock().get_or_insert(subject.clone());
                }
                // Nobody may wait for it.
                let _ = shared.denials.send(subject);
            }
        }
        event => tracing::warn!(%event, "the NATS connection"),
    }
}

/// The subject of `Permissions Violation for Publish to "a.b"`.
fn denied_subject(text: &str) -> Option<&str> {
    let is_denial = text.to_ascii_lowercase().contains("permissions violation");
    text.split('"').nth(1).filter(|_| is_denial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_has_a_subject() {
        let text = "Permissions Violation for Publish to \"a.b\"";
        assert_eq!(denied_subject(text), Some("a.b"));
        assert_eq!(denied_subject("Maximum Connections Exceeded"), None);
        assert_eq!(denied_subject("say \"a\""), None);
    }
}
