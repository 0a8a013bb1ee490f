//! Bytes to a server without a password, and its replies up to its end of the connection.
//!
//! To add an attack, add a line: the bytes, and all replies. `QUIT` is sent behind the bytes, so the replies to
//! requests end with `+OK`. An empty answer means that the server closes the connection silently. If a real Redis
//! of the same version is installed, it must reply the same.

use crate::common::{
    both::{Both, replies, with_both},
    embedded, open,
};

#[rustfmt::skip]
const CASES: &[(&[u8], &[u8])] = &[
    (b"", b"+OK\r\n"),
    (b"*0\r\n*-1\r\n*-10\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n+OK\r\n"),
    (b"*x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*+1\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*01\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*99999999999\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*1\r\nPING\r\n", b"-ERR Protocol error: expected '$', got 'P'\r\n"),
    (b"*1\r\n:1\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
    (b"*1\r\n$x\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$+4\r\nPING\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$99999999999\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", b"+PONG\r\n+PONG\r\n+OK\r\n"),
    (b"*1\r\n$4\r\nPING\r\n*1\r\n!PING\r\nPING\r\n",
        b"+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n"),
    // HTTP: nothing of it is executed, and nothing is replied.
    (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET k v\r\n", b""),
    (b"post x\r\nPING\r\n", b""),
    (b"POST\r\nPING\r\n", b""),
    (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET k v\r\n", b""),
    (b"PUT / HTTP/1.1\r\nhOsT: 127.0.0.1\r\n\r\nSET k v\r\n", b""),
    (b"PING\r\nhost:\r\nPING\r\n", b""),
    (b"SUBSCRIBE c\r\nHost: x\r\nPING\r\n", b""),
    (b"*1\r\n$4\r\nPING\r\nPOST / HTTP/1.1\r\n", b""),
];

/// Lines, which a real Redis executes, and the embedded one refuses silently.
const LINES: &[&[u8]] = &[
    b"PING\r\n",
    b"\r\n",
    b"SET k v\r\n",
    b"\n",
    b"$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\nSET k v\r\n",
];

#[test]
fn a_line_closes_the_connection_silently() {
    for bytes in LINES {
        let (_system, server) = embedded(open());
        assert_eq!(
            replies(server.address(), bytes),
            b"",
            "{}",
            bytes.escape_ascii()
        );
        let figures = server.snapshot();
        assert_eq!((figures.keys, figures.connections_malformed), (0, 1));
    }
}

#[test]
fn each_is_replied_to_as_the_table_says() {
    let check = |both: Option<&Both>| {
        for (bytes, wanted) in CASES {
            let (_system, server) = embedded(open());
            let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
            let embedded = replies(server.address(), bytes);
            assert_eq!(text(&embedded), text(wanted), "sent: {}", text(bytes));
            assert_eq!(server.snapshot().keys, 0, "sent: {}", text(bytes));
            match both {
                Some(both) if wanted.is_empty() => {
                    assert_eq!(
                        text(&replies(both.real, bytes)),
                        "",
                        "sent: {}",
                        text(bytes)
                    );
                }
                Some(both) => both.check(bytes),
                None => {}
            }
        }
    };
    check(None);
    with_both(&[], None, |both| check(Some(&both)));
}

#[test]
fn each_is_dropped_before_the_password_too() {
    let check = |address| {
        for (bytes, wanted) in CASES {
            if wanted.is_empty() {
                assert_eq!(replies(address, bytes), b"", "{}", bytes.escape_ascii());
            }
        }
    };
    with_both(&["--requirepass", "secret"], Some("secret"), |both| {
        check(both.real);
        check(both.embedded);
    });
}
