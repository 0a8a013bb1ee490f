//! An embedded server and a real one that receive the same requests.

use std::{io::Write, net::SocketAddr};

use freeboard_redis::protocol::{Limits, Parser, Value};
use freeboard_redis_embedded::{EmbeddedOptions, Password};
use freeboard_test_servers::{if_installed, redis};

use super::{Peer, embedded, words};

/// The replies of a server to `bytes` and a final `QUIT`.
pub(crate) fn replies(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut peer = Peer::connect(address);
    peer.send(bytes);
    // A server that refused `bytes` may have closed the connection.
    let _ = peer.0.write_all(b"*1\r\n$4\r\nQUIT\r\n");
    peer.read_to_end()
}

/// Removes the greeting from the replies. Returns its keys.
pub(crate) fn without_greeting(replies: &[u8]) -> (Vec<Value>, &[u8]) {
    let mut rest = replies;
    let greeting = Parser::new(Limits::default()).next(&mut rest).unwrap();
    let keys = match greeting {
        Some(Value::Map(pairs)) => pairs.into_iter().map(|(key, _)| key).collect(),
        Some(Value::Array(values)) => values.into_iter().step_by(2).collect(),
        other => panic!("{other:?} is not a greeting"),
    };
    (keys, rest)
}

/// Both servers. Each check begins with no keys.
pub(crate) struct Both {
    pub(crate) real: SocketAddr,
    pub(crate) embedded: SocketAddr,
}

impl Both {
    pub(crate) fn check(&self, bytes: &[u8]) {
        for protocol in ["2", "3"] {
            self.check_in(protocol, bytes);
        }
    }

    /// Checks one version of the protocol.
    pub(crate) fn check_in(&self, protocol: &str, bytes: &[u8]) {
        let hello = words(&format!("HELLO {protocol}"));
        let bytes = [&hello, &words("FLUSHALL")[..], bytes].concat();
        let (real, embedded) = (replies(self.real, &bytes), replies(self.embedded, &bytes));
        let (real_keys, real) = without_greeting(&real);
        let (embedded_keys, embedded) = without_greeting(&embedded);
        assert_eq!(embedded_keys, real_keys);
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let sent = text(&bytes);
        assert_eq!(text(embedded), text(real), "RESP{protocol}, sent: {sent}");
    }

    pub(crate) fn check_lines(&self, lines: &str) {
        let requests: Vec<Vec<u8>> = lines.lines().map(str::trim).map(words).collect();
        self.check(&requests.concat());
    }
}

/// Whether the real server has the emulated version.
fn is_alike(address: SocketAddr, password: Option<&str>) -> bool {
    let login = password.map(|password| words(&format!("AUTH {password}")));
    let info = replies(
        address,
        &[login.unwrap_or_default(), words("INFO server")].concat(),
    );
    let info = String::from_utf8(info).unwrap();
    let is_alike = info.contains("redis_version:7.0.");
    if !is_alike {
        eprintln!("skipped: redis-server is not version 7.0");
    }
    is_alike
}

/// Calls `test` with both servers, if there is a real one.
pub(crate) fn with_both(options: &[&str], password: Option<&str>, test: impl FnOnce(Both)) {
    let Some(real) = if_installed(redis(options)) else {
        return;
    };
    if !is_alike(real.address(), password) {
        return;
    }
    let options = EmbeddedOptions {
        password: password.map_or(Password::None, |it| Password::Is(it.to_owned())),
        ..EmbeddedOptions::default()
    };
    let (_system, embedded) = embedded(options);
    test(Both {
        real: real.address(),
        embedded: embedded.address(),
    });
}
