//! What is said on one connection: requests in, replies out. Touches no socket.

use std::sync::Arc;

use crate::{
    arguments::Arguments,
    clock,
    command::{Action, Call, Command, deliver, is_only_listening},
    commands,
    malformed::Malformed,
    output::Output,
    refusal::Refusal,
    request_reader::RequestReader,
    session::{Session, Transaction},
    store::{Common, Store},
};

/// Requests that are carried out under one lock, so that others have their turn.
const REQUESTS_MAX: usize = 256;
/// Of a command that is not known, and of its arguments, so many bytes are repeated. Redis' own limit.
const REPEATED_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct Dialogue {
    reader: RequestReader,
    pub(crate) session: Session,
    pub(crate) output: Output,
    common: Arc<Common>,
}

/// What a feeding came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fed {
    /// Bytes that are done with. What is behind them is to be given again.
    pub(crate) bytes: usize,
    /// Whether there is nothing left to do before more comes.
    pub(crate) is_hungry: bool,
}

impl Dialogue {
    pub(crate) fn new(session: Session) -> Self {
        let common = session.member.common().clone();
        let options = &common.options;
        Self {
            reader: RequestReader::new(options.query_bytes_max),
            session,
            output: Output::new(options.write_bytes, options.output_bytes_max),
            common,
        }
    }

    /// Carries out what is there whole, as long as there is room for replies.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Fed {
        let common = self.common.clone();
        let mut store = common.store.lock();
        let fed = self.feed_locked(input, &mut store);
        self.hold(input.len() - fed.bytes);
        if self.session.is_closing {
            let member = &mut self.session.member;
            member.unsubscribe_all(&mut store.subscribers);
        }
        let woken = store.subscribers.take_woken();
        drop(store);
        woken.iter().for_each(|inbox| inbox.wake());
        fed
    }

    fn feed_locked(&mut self, input: &[u8], store: &mut Store) -> Fed {
        let now_ms = clock::now_ms();
        let mut fed = Fed {
            bytes: 0,
            is_hungry: false,
        };
        // Others publish under the same lock: nothing comes between the requests.
        deliver(&self.session, &mut self.output);
        for _ in 0..REQUESTS_MAX {
            if self.session.is_closing || !self.output.has_room() {
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
                    if self.session.is_dropped {
                        self.common.gauges.malformed.add(1);
                        self.session.is_closing = true;
                    }
                }
                Ok(None) => {
                    fed.is_hungry = true;
                    return fed;
                }
                Err(malformed) => {
                    self.common.gauges.malformed.add(1);
                    self.close(malformed);
                    return fed;
                }
            }
        }
        fed
    }

    /// Counts what is kept until more comes, and `input_bytes` that were not taken.
    fn hold(&mut self, input_bytes: usize) {
        let transaction = self.session.transaction.as_ref();
        let transaction_bytes = transaction.map_or(0, Transaction::bytes);
        let bytes = input_bytes + self.reader.kept_bytes() + transaction_bytes;
        if !self.session.is_closing && !self.session.member.hold(bytes) {
            self.common.gauges.unfinished.add(1);
            self.close(Malformed::Unfinished);
        }
        if self.session.is_closing {
            self.reader = RequestReader::new(0);
            self.session.transaction = None;
            self.session.member.hold(0);
        }
    }

    /// Says why, and reads nothing more.
    fn close(&mut self, why: Malformed) {
        self.session.is_closing = true;
        self.output.error(format!("ERR {why}").as_bytes());
    }

    /// Writes messages that were published meanwhile.
    pub(crate) fn deliver(&mut self) {
        deliver(&self.session, &mut self.output);
    }

    /// Whether the client has left more unread than it is kept for.
    pub(crate) fn is_over(&self) -> bool {
        let inbox = self.session.member.inbox();
        self.output.is_over() || inbox.is_some_and(|inbox| inbox.is_over())
    }
}

/// Carries a request out, keeps it for the transaction, or refuses it.
fn take(call: &mut Call<'_>) {
    // As Redis: a blank line is no request, nor is an empty array.
    if call.arguments.len() == 0 {
        return;
    }
    // A browser that was made to send commands sends these words first. Redis closes at them, too.
    if call.is_word(0, "POST") || call.is_word(0, "Host:") {
        call.session.is_dropped = true;
        return;
    }
    call.store.commands += 1;
    let command = match admit(call) {
        Ok(command) => command,
        Err(refusal) => return refuse(call, &refusal),
    };
    match &mut call.session.transaction {
        Some(transaction) if !commands::ends_transaction(command) => {
            let bytes_max = call.session.member.common().options.query_bytes_max;
            if transaction.add(command, call.arguments, bytes_max) {
                call.output.line(b"+QUEUED\r\n");
            } else {
                transaction.is_spoiled = true;
                call.output.error(b"ERR the transaction is too large");
            }
        }
        _ => run(command, call),
    }
}

fn refuse(call: &mut Call<'_>, refusal: &Refusal) {
    if call.is_word(0, "EXEC") {
        call.session.transaction = None;
        let why = refusal.0.strip_prefix("ERR ").unwrap_or(&refusal.0);
        let text = format!("EXECABORT Transaction discarded because of: {why}");
        return call.output.error(text.as_bytes());
    }
    call.session.spoil();
    call.output.error(refusal.0.as_bytes());
}

/// The command, if the client may use it now, and in this way.
fn admit(call: &Call<'_>) -> Result<&'static Command, Refusal> {
    let arguments = call.arguments;
    let command = find(arguments)?;
    if !command.takes(arguments.len()) {
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

fn find(arguments: Arguments<'_>) -> Result<&'static Command, Refusal> {
    let command = commands::find(arguments.get(0)).ok_or_else(|| unknown(arguments))?;
    let Action::Container(commands) = &command.action else {
        return Ok(command);
    };
    if arguments.len() < 2 {
        return Ok(command);
    }
    let wanted = arguments.get(1);
    let is_wanted = |command: &&Command| {
        let (_, name) = command.name.split_once('|').unwrap_or_default();
        wanted.eq_ignore_ascii_case(name.as_bytes())
    };
    commands.iter().find(is_wanted).ok_or_else(|| {
        let wanted = repeated(wanted, REPEATED_BYTES_MAX);
        let name = command.name;
        format!("ERR unknown subcommand '{wanted}'. Try {name} HELP.").into()
    })
}

fn unknown(arguments: Arguments<'_>) -> Refusal {
    let name = repeated(arguments.get(0), REPEATED_BYTES_MAX);
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let begin = text.len();
    for argument in arguments.from(1) {
        let Some(room) = REPEATED_BYTES_MAX.checked_sub(text.len() - begin) else {
            break;
        };
        if room == 0 {
            break;
        }
        text.extend(["'", &repeated(argument, room), "' "]);
    }
    text.into()
}

fn repeated(text: &[u8], bytes_max: usize) -> String {
    let text = &text[..text.len().min(bytes_max)];
    String::from_utf8_lossy(text).into_owned()
}

/// Carries a command out, and replies.
pub(crate) fn run(command: &'static Command, call: &mut Call<'_>) {
    let outcome = match command.action {
        Action::Run(run) => run(call),
        // One without a subcommand has too few arguments, and does not come here.
        Action::Container(_) => Err(Refusal::arity(command.name)),
    };
    if let Err(refusal) = outcome {
        call.output.error(refusal.0.as_bytes());
    }
}
