//! The commands, and where each is found.

mod connection;
mod expiry;
mod keys;
mod numbers;
mod pubsub;
mod scripts;
mod server;
mod set;
mod strings;
mod transactions;

use crate::command::Command;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 12;

/// In order of their names.
static COMMANDS: &[Command] = &[
    Command::new("APPEND", 3, strings::append),
    Command::new("AUTH", -2, connection::auth),
    Command::container("CLIENT", connection::CLIENT),
    Command::new("COMMAND", -1, server::command),
    Command::container("CONFIG", server::CONFIG),
    Command::new("DBSIZE", 1, server::dbsize),
    Command::new("DECR", 2, numbers::decr),
    Command::new("DECRBY", 3, numbers::decrby),
    Command::new("DEL", -2, keys::del),
    Command::new("DISCARD", 1, transactions::discard),
    Command::new("ECHO", 2, connection::echo),
    Command::new("EVAL", -3, scripts::eval),
    Command::new("EVALSHA", -3, scripts::evalsha),
    Command::new("EXEC", 1, transactions::exec),
    Command::new("EXISTS", -2, keys::exists),
    Command::new("EXPIRE", -3, expiry::expire),
    Command::new("EXPIREAT", -3, expiry::expireat),
    Command::new("FLUSHALL", -1, server::flush),
    Command::new("FLUSHDB", -1, server::flush),
    Command::new("GET", 2, strings::get),
    Command::new("GETDEL", 2, strings::getdel),
    Command::new("HELLO", -1, connection::hello),
    Command::new("INCR", 2, numbers::incr),
    Command::new("INCRBY", 3, numbers::incrby),
    Command::new("INFO", -1, server::info),
    Command::new("MGET", -2, strings::mget),
    Command::new("MSET", -3, strings::mset),
    Command::new("MULTI", 1, transactions::multi),
    Command::new("PERSIST", 2, expiry::persist),
    Command::new("PEXPIRE", -3, expiry::pexpire),
    Command::new("PEXPIREAT", -3, expiry::pexpireat),
    Command::new("PING", -1, connection::ping),
    Command::new("PSETEX", 4, set::psetex),
    Command::new("PTTL", 2, expiry::pttl),
    Command::new("PUBLISH", 3, pubsub::publish),
    Command::container("PUBSUB", pubsub::PUBSUB),
    Command::new("QUIT", -1, connection::quit),
    Command::container("SCRIPT", scripts::SCRIPT),
    Command::new("SELECT", 2, connection::select),
    Command::new("SET", -3, set::set),
    Command::new("SETEX", 4, set::setex),
    Command::new("SETNX", 3, set::setnx),
    Command::new("STRLEN", 2, strings::strlen),
    Command::new("SUBSCRIBE", -2, pubsub::subscribe),
    Command::new("TIME", 1, server::time),
    Command::new("TTL", 2, expiry::ttl),
    Command::new("TYPE", 2, keys::kind),
    Command::new("UNLINK", -2, keys::del),
    Command::new("UNSUBSCRIBE", -1, pubsub::unsubscribe),
];

/// The command of this name, in whatever case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; NAME_BYTES_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    let order = |command: &Command| command.name.as_bytes().cmp(capitals);
    let index = COMMANDS.binary_search_by(order).ok()?;
    COMMANDS.get(index)
}

/// Whether a command is carried out at once also within a transaction.
pub(crate) fn ends_transaction(command: &Command) -> bool {
    matches!(command.name, "DISCARD" | "EXEC" | "MULTI" | "QUIT")
}

/// Whether a client that has not given the password may use a command.
pub(crate) fn needs_no_login(command: &Command) -> bool {
    matches!(command.name, "AUTH" | "HELLO" | "QUIT")
}

/// Whether a client of RESP2 that has subscribed may use a command.
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
