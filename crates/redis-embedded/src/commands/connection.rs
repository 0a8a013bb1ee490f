//! Commands about the connection and the server.

use freeboard_meter::clock;

use crate::{
    arguments::integer,
    command::{Call, CommandResult, Refusal, is_only_listening},
    output::Protocol,
    store::Common,
};

/// The only user.
const USER: &[u8] = b"default";
/// The emulated version of Redis.
const VERSION: &str = "7.0.15";

const WRONG_PASSWORD: Refusal =
    Refusal::of("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD: Refusal = Refusal::of(
    "ERR AUTH <password> called without any password configured for the default user. \
     Are you sure your configuration is correct?",
);
const HELLO_BEFORE_LOGIN: Refusal = Refusal::of(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the \
     same time",
);
const PROTOCOL_NO_INTEGER: Refusal =
    Refusal::of("ERR Protocol version is not an integer or out of range");
const NO_PROTOCOL: Refusal = Refusal::of("NOPROTO unsupported protocol version");
const NAME: Refusal =
    Refusal::of("ERR Client names cannot contain spaces, newlines or special characters.");

/// Checks name and password. The time does not depend on where a wrong password differs.
fn is_valid_login(common: &Common, user: &[u8], password: &[u8]) -> bool {
    let Some(wanted) = &common.password else {
        return user == USER;
    };
    let wanted = wanted.as_bytes();
    let pairs = wanted.iter().zip(password);
    let difference = pairs.fold(0, |difference, (a, b)| difference | (a ^ b));
    user == USER && wanted.len() == password.len() && difference == 0
}

fn log_in(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> CommandResult {
    if !is_valid_login(call.session.common(), user, password) {
        return Err(WRONG_PASSWORD);
    }
    call.session.is_logged_in = true;
    Ok(())
}

pub(super) fn auth(call: &mut Call<'_>) -> CommandResult {
    let has_password = call.session.common().password.is_some();
    match call.arguments.len() {
        2 if !has_password => return Err(NO_PASSWORD),
        2 => log_in(call, USER, call.argument(1))?,
        3 => log_in(call, call.argument(1), call.argument(2))?,
        _ => return Err(Refusal::SYNTAX),
    }
    call.output.ok();
    Ok(())
}

pub(super) fn hello(call: &mut Call<'_>) -> CommandResult {
    let mut protocol = call.output.protocol;
    if call.arguments.len() > 1 {
        protocol = match integer(call.argument(1)).ok_or(PROTOCOL_NO_INTEGER)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(NO_PROTOCOL),
        };
    }
    let mut credentials = None;
    let mut at = 2;
    while at < call.arguments.len() {
        let left = call.arguments.len() - at - 1;
        if call.is_word(at, "AUTH") && left >= 2 {
            credentials = Some((call.argument(at + 1), call.argument(at + 2)));
            at += 3;
        } else if call.is_word(at, "SETNAME") && left >= 1 {
            // The name is not kept: no command shows it.
            check_name(call.argument(at + 1))?;
            at += 2;
        } else {
            let option = String::from_utf8_lossy(call.argument(at));
            return Err(format!("ERR Syntax error in HELLO option '{option}'").into());
        }
    }
    if let Some((user, password)) = credentials {
        log_in(call, user, password)?;
    }
    if !call.session.is_logged_in {
        return Err(HELLO_BEFORE_LOGIN);
    }
    call.output.protocol = protocol;
    greet(call, protocol);
    Ok(())
}

fn greet(call: &mut Call<'_>, protocol: Protocol) {
    let texts = [("server", "redis"), ("version", VERSION)];
    let id = i64::try_from(call.session.id).unwrap_or(i64::MAX);
    let protocol = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let output = &mut *call.output;
    output.map(7);
    for (key, text) in texts {
        output.bulk(key.as_bytes());
        output.bulk(text.as_bytes());
    }
    for (key, number) in [("proto", protocol), ("id", id)] {
        output.bulk(key.as_bytes());
        output.integer(number);
    }
    for (key, text) in [("mode", "standalone"), ("role", "master")] {
        output.bulk(key.as_bytes());
        output.bulk(text.as_bytes());
    }
    output.bulk(b"modules");
    output.array(0);
}

/// Checks that a name is printable.
fn check_name(name: &[u8]) -> Result<(), Refusal> {
    match name.iter().all(u8::is_ascii_graphic) {
        true => Ok(()),
        false => Err(NAME),
    }
}

pub(super) fn ping(call: &mut Call<'_>) -> CommandResult {
    if call.arguments.len() > 2 {
        return Err(Refusal::arity("PING"));
    }
    if is_only_listening(call.session, call.output) {
        call.output.array(2);
        call.output.bulk(b"pong");
        call.output.bulk(call.argument(1));
    } else if call.arguments.len() == 2 {
        call.output.bulk(call.argument(1));
    } else {
        call.output.line(b"+PONG\r\n");
    }
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_>) -> CommandResult {
    call.session.is_closing = true;
    call.output.ok();
    Ok(())
}

pub(super) fn dbsize(call: &mut Call<'_>) -> CommandResult {
    call.output.count(call.store.keyspace.len());
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_>) -> CommandResult {
    let is_known = match call.arguments.len() {
        1 => true,
        2 => call.is_word(1, "SYNC") || call.is_word(1, "ASYNC"),
        _ => false,
    };
    if !is_known {
        return Err(Refusal::SYNTAX);
    }
    call.store.keyspace.clear();
    call.output.ok();
    Ok(())
}

pub(super) fn time(call: &mut Call<'_>) -> CommandResult {
    let now = clock::since_1970();
    call.output.array(2);
    call.output.bulk(now.as_secs().to_string().as_bytes());
    call.output.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}
