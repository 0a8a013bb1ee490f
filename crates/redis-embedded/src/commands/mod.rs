//! The command table.

mod connection;
mod pubsub;
mod scripts;
mod strings;

use crate::command::Command;

/// Length of the longest name.
const NAME_BYTES_MAX: usize = 12;

/// Sorted by name.
static COMMANDS: &[Command] = &[
    Command::new("AUTH", -2, connection::auth),
    Command::new("DBSIZE", 1, connection::dbsize),
    Command::new("DEL", -2, strings::del),
    Command::new("EVAL", -3, scripts::eval),
    Command::new("EVALSHA", -3, scripts::evalsha),
    Command::new("EXISTS", -2, strings::exists),
    Command::new("FLUSHALL", -1, connection::flush),
    Command::new("GET", 2, strings::get),
    Command::new("HELLO", -1, connection::hello),
    Command::new("PING", -1, connection::ping),
    Command::new("PUBLISH", 3, pubsub::publish),
    Command::new("PUBSUB", -2, pubsub::numsub),
    Command::new("QUIT", -1, connection::quit),
    Command::new("SCRIPT", -2, scripts::flush),
    Command::new("SET", -3, strings::set),
    Command::new("SUBSCRIBE", -2, pubsub::subscribe),
    Command::new("TIME", 1, connection::time),
    Command::new("TTL", 2, strings::ttl),
    Command::new("UNSUBSCRIBE", -1, pubsub::unsubscribe),
];

/// Finds a command by name, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; NAME_BYTES_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    let order = |command: &Command| command.name.as_bytes().cmp(capitals);
    let index = COMMANDS.binary_search_by(order).ok()?;
    COMMANDS.get(index)
}

/// Whether the command is allowed before authentication.
pub(crate) fn needs_no_login(command: &Command) -> bool {
    matches!(command.name, "AUTH" | "HELLO" | "QUIT")
}

/// Whether the command is allowed for RESP2 clients with subscriptions.
pub(crate) fn is_for_listeners(command: &Command) -> bool {
    matches!(command.name, "PING" | "QUIT" | "SUBSCRIBE" | "UNSUBSCRIBE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_found() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in COMMANDS {
            let found = find(command.name.to_lowercase().as_bytes());
            assert_eq!(found.map(|found| found.name), Some(command.name));
        }
        assert!(find(b"").is_none());
        assert!(find(&[b'G'; 1_000]).is_none());
    }
}
