//! The requests and replies of one connection. Uses no socket.

use std::sync::Arc;

use crate::{
    command::{Call, Command, Refusal, deliver, is_only_listening},
    commands,
    output::Output,
    request_reader::{Malformed, RequestReader},
    session::Session,
    store::{Common, Store, now_ms},
};

/// Requests executed per lock, so that other connections get their turn.
const REQUESTS_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Dialogue {
    reader: RequestReader,
    pub(crate) session: Session,
    pub(crate) output: Output,
    common: Arc<Common>,
}

/// The result of `feed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fed {
    /// Bytes consumed. The rest must be passed again.
    pub(crate) bytes: usize,
    /// Whether more input is needed.
    pub(crate) is_hungry: bool,
}

impl Dialogue {
    pub(crate) fn new(session: Session) -> Self {
        let common = session.common().clone();
        let options = &common.options;
        Self {
            reader: RequestReader::new(options.query_bytes_max),
            session,
            output: Output::new(options.write_bytes, options.output_bytes_max),
            common,
        }
    }

    /// Executes the complete requests of the input, as far as the output has capacity.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Fed {
        let common = self.common.clone();
        let mut store = common.store.lock();
        let fed = self.feed_locked(input, &mut store);
        self.hold(input.len() - fed.bytes);
        if self.session.is_closing {
            self.session.unsubscribe_all(&mut store.subscribers);
        }
        let woken = store.subscribers.take_woken();
        drop(store);
        woken.iter().for_each(|inbox| inbox.wake());
        fed
    }

    fn feed_locked(&mut self, input: &[u8], store: &mut Store) -> Fed {
        let now_ms = now_ms();
        let mut fed = Fed {
            bytes: 0,
            is_hungry: false,
        };
        // Other connections publish under the same lock, so no message arrives between the requests.
        deliver(&self.session, &mut self.output);
        for _ in 0..REQUESTS_MAX {
            if self.session.is_closing || !self.output.has_capacity() {
                return fed;
            }
            let rest = &input[fed.bytes..];
            match self.reader.next(rest, self.session.is_logged_in) {
                Ok(Some(bytes)) => {
                    fed.bytes += bytes;
                    let mut call = Call {
                        arguments: self.reader.arguments(rest),
                        store,
                        session: &mut self.session,
                        output: &mut self.output,
                        now_ms,
                    };
                    take(&mut call);
                }
                Ok(None) => {
                    fed.is_hungry = true;
                    return fed;
                }
                Err(malformed) => {
                    self.common.gauges.malformed.add(1);
                    if malformed == Malformed::NoArray {
                        self.session.is_dropped = true;
                        self.session.is_closing = true;
                    } else {
                        self.close(malformed);
                    }
                    return fed;
                }
            }
        }
        fed
    }

    /// Counts the memory of an unfinished request, and the `input_bytes` not consumed.
    fn hold(&mut self, input_bytes: usize) {
        let bytes = input_bytes + self.reader.kept_bytes();
        if !self.session.is_closing && !self.session.hold(bytes) {
            self.common.gauges.unfinished.add(1);
            self.close(Malformed::Unfinished);
        }
        if self.session.is_closing {
            self.reader = RequestReader::new(0);
            self.session.hold(0);
        }
    }

    /// Replies with the reason, and reads nothing more.
    fn close(&mut self, why: Malformed) {
        self.session.is_closing = true;
        self.output.error(format!("ERR {why}").as_bytes());
    }

    /// Writes pending messages.
    pub(crate) fn deliver(&mut self) {
        deliver(&self.session, &mut self.output);
    }

    /// Whether unread replies or messages exceed the limit.
    pub(crate) fn is_over(&self) -> bool {
        let inbox = self.session.inbox();
        self.output.is_over() || inbox.is_some_and(|inbox| inbox.is_over())
    }
}

/// Executes a request or refuses it.
fn take(call: &mut Call<'_>) {
    // Like Redis, this ignores empty arrays.
    if call.arguments.len() == 0 {
        return;
    }
    call.store.commands += 1;
    if let Err(refusal) = admit(call).and_then(|command| (command.run)(call)) {
        call.output.error(refusal.0.as_bytes());
    }
}

/// The command, if its arguments are valid and the client may use it now.
fn admit(call: &Call<'_>) -> Result<&'static Command, Refusal> {
    let name = call.argument(0);
    let command = commands::find(name).ok_or_else(|| Refusal::unknown("command", name))?;
    if !command.takes(call.arguments.len()) {
        return Err(Refusal::arity(command.name));
    }
    if !call.session.is_logged_in && !commands::needs_no_login(command) {
        return Err(Refusal::LOGIN);
    }
    if is_only_listening(call.session, call.output) && !commands::is_for_listeners(command) {
        let name = command.name.to_ascii_lowercase();
        let text = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
             in this context"
        );
        return Err(text.into());
    }
    Ok(command)
}
