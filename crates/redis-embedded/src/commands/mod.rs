//! The command table.

mod connection;
mod pubsub;
mod scripts;
mod strings;

use crate::command::Command;

/// The most frequent commands first.
static COMMANDS: &[Command] = &[
    Command::new("GET", 2, strings::get),
    Command::new("EVALSHA", -3, scripts::evalsha),
    Command::new("SET", -3, strings::set),
    Command::new("MGET", -2, strings::mget),
    Command::new("PING", -1, connection::ping),
    Command::new("TIME", 1, connection::time),
    Command::new("PUBLISH", 3, pubsub::publish),
    Command::new("DEL", -2, strings::del),
    Command::new("EXISTS", -2, strings::exists),
    Command::new("TTL", 2, strings::ttl),
    Command::new("EVAL", -3, scripts::eval),
    Command::new("SUBSCRIBE", -2, pubsub::subscribe),
    Command::new("UNSUBSCRIBE", -1, pubsub::unsubscribe),
    Command::new("PUBSUB", -2, pubsub::numsub),
    Command::new("SCRIPT", -2, scripts::flush),
    Command::new("HELLO", -1, connection::hello),
    Command::new("AUTH", -2, connection::auth),
    Command::new("QUIT", -1, connection::quit),
    Command::new("DBSIZE", 1, connection::dbsize),
    Command::new("FLUSHALL", -1, connection::flush),
];

/// Finds a command by name, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut commands = COMMANDS.iter();
    commands.find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
}

/// Whether the command is allowed before authentication.
pub(crate) fn needs_no_login(command: &Command) -> bool {
    matches!(command.name, "AUTH" | "HELLO" | "QUIT")
}

/// Whether the command is allowed for RESP2 clients with subscriptions.
pub(crate) fn is_for_listeners(command: &Command) -> bool {
    matches!(command.name, "PING" | "QUIT" | "SUBSCRIBE" | "UNSUBSCRIBE")
}
