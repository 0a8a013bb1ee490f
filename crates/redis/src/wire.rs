//! One socket: its parser, its write buffer, the greeting, and the reasons for its loss.

use std::{fmt, io, net::SocketAddr, time::Duration};

use bytes::BytesMut;
use freeboard_net::poller::{Poller, mio::net::TcpStream};
use freeboard_net::tcp::{Arrived, Outgoing, Socket};

use crate::{
    command::Command,
    error::DownReason,
    options::RedisOptions,
    protocol::{Limits, Malformed, Parser, ProtocolError, Value},
};

/// Bytes of one read at most.
pub(crate) const READ_BYTES: usize = 64 << 10;

pub(crate) struct Wire {
    pub(crate) socket: Socket,
    pub(crate) parser: Parser,
    pub(crate) outgoing: Outgoing,
    greeting: Greeting,
}

impl Wire {
    /// Begins to connect. `call` is invoked when the socket is ready.
    pub(crate) fn connect(
        address: SocketAddr,
        poller: &Poller,
        limits: Limits,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        // Writes are whole batches, so Nagle would only delay them.
        let _ = stream.set_nodelay(true);
        Ok(Self {
            socket: Socket::new(stream, poller, call)?,
            parser: Parser::new(limits),
            outgoing: Outgoing::new(),
            greeting: Greeting::default(),
        })
    }

    pub(crate) fn begin_greeting(&mut self, options: &RedisOptions) {
        let greeting = &mut self.greeting;
        self.outgoing
            .append(|to| *greeting = Greeting::begin(options, to));
    }

    /// Advances the greeting. `true` once it is answered.
    pub(crate) fn greet(&mut self) -> Result<bool, Failure> {
        self.socket.write(&mut self.outgoing)?;
        let (parser, greeting) = (&mut self.parser, &mut self.greeting);
        let mut answered = Ok(());
        let arrived = self.socket.read(READ_BYTES, |bytes| {
            answered = answer(bytes, parser, greeting);
        })?;
        answered?;
        if arrived == Arrived::End {
            return Err(Failure::Ended);
        }
        Ok(self.greeting.is_done())
    }
}

fn answer(mut bytes: &[u8], parser: &mut Parser, greeting: &mut Greeting) -> Result<(), Failure> {
    while let Some(value) = parser.next(&mut bytes).map_err(Failure::Protocol)? {
        if greeting.is_done() {
            let error = parser.error(Malformed::Unasked);
            return Err(Failure::Protocol(error));
        }
        greeting.reply(&value).map_err(Failure::Refused)?;
    }
    Ok(())
}

/// A greeting that waits for its replies.
#[derive(Debug, Default)]
struct Greeting {
    replies_left: usize,
}

impl Greeting {
    /// Writes `HELLO 3` with name and password, and `SELECT`.
    fn begin(options: &RedisOptions, to: &mut BytesMut) -> Self {
        let mut hello = Command::new("HELLO").integer(3);
        if let Some(password) = &options.password {
            let user = options.username.as_deref().unwrap_or("default");
            hello = hello.arg("AUTH").arg(user).arg(password);
        }
        if let Some(name) = &options.client_name {
            hello = hello.arg("SETNAME").arg(name);
        }
        hello.encode(to);
        if options.database == 0 {
            return Self { replies_left: 1 };
        }
        let select = Command::new("SELECT").integer(options.database.into());
        select.encode(to);
        Self { replies_left: 2 }
    }

    /// Takes a reply; `Err` if the server refused.
    fn reply(&mut self, value: &Value) -> Result<(), DownReason> {
        if let Value::Error(error) = value {
            let is_unknown = error.message().starts_with("unknown command");
            return Err(if is_unknown || error.code() == "NOPROTO" {
                DownReason::NoResp3(error.clone())
            } else {
                DownReason::Refused(error.clone())
            });
        }
        self.replies_left = self.replies_left.saturating_sub(1);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.replies_left == 0
    }
}

/// Why a connection or a connection attempt failed.
pub(crate) enum Failure {
    Io(io::Error),
    Ended,
    Late(&'static str, Duration),
    Refused(DownReason),
    Protocol(ProtocolError),
    Stuck(Duration),
    Closed,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "{error}"),
            Self::Ended => formatter.write_str("the server closed the connection"),
            Self::Late(what, time) => write!(formatter, "no {what} within {time:?}"),
            Self::Refused(reason) => write!(formatter, "{reason}"),
            Self::Protocol(error) => write!(formatter, "{error}"),
            Self::Stuck(time) => {
                write!(formatter, "a reply was more than {time:?} overdue")
            }
            Self::Closed => formatter.write_str("the client was closed"),
        }
    }
}
