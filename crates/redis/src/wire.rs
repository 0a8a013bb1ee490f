//! One socket: its parser, its write buffer, the greeting, and the reasons for its loss.

use std::{io, net::SocketAddr, time::Duration};

use freeboard_net::poller::Poller;
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
    /// Replies to the greeting that have not arrived.
    greetings_left: usize,
}

impl Wire {
    /// Begins to connect. `call` is invoked when the socket is ready.
    pub(crate) fn connect(
        address: SocketAddr,
        poller: &Poller,
        limits: Limits,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Ok(Self {
            socket: Socket::new(poller.connect(address)?, poller, call)?,
            parser: Parser::new(limits),
            outgoing: Outgoing::new(),
            greetings_left: 0,
        })
    }

    /// Writes `HELLO 3` with name and password, and `SELECT`.
    pub(crate) fn begin_greeting(&mut self, options: &RedisOptions) {
        let mut hello = Command::new("HELLO").integer(3);
        if let Some(password) = &options.password {
            let user = options.username.as_deref().unwrap_or("default");
            hello = hello.arg("AUTH").arg(user).arg(password);
        }
        if let Some(name) = &options.client_name {
            hello = hello.arg("SETNAME").arg(name);
        }
        self.outgoing.append(|to| hello.encode(to));
        self.greetings_left = 1;
        if options.database > 0 {
            let select = Command::new("SELECT").integer(options.database.into());
            self.outgoing.append(|to| select.encode(to));
            self.greetings_left = 2;
        }
    }

    /// Advances the greeting. `true` once it is answered.
    pub(crate) fn greet(&mut self) -> Result<bool, Failure> {
        self.socket.write(&mut self.outgoing)?;
        let (parser, left) = (&mut self.parser, &mut self.greetings_left);
        let mut answered = Ok(());
        let arrived = self.socket.read(READ_BYTES, |bytes| {
            answered = answer(bytes, parser, left);
        })?;
        answered?;
        if arrived == Arrived::End {
            return Err(Failure::Ended);
        }
        Ok(self.greetings_left == 0)
    }
}

/// Takes the replies to a greeting, of which `left` have not arrived.
fn answer(mut bytes: &[u8], parser: &mut Parser, left: &mut usize) -> Result<(), Failure> {
    while let Some(value) = parser.next(&mut bytes)? {
        if *left == 0 {
            return Err(parser.error(Malformed::Unasked).into());
        }
        if let Value::Error(error) = value {
            let is_unknown = error.message().starts_with("unknown command");
            return Err(Failure::Refused(
                match error.code() == "NOPROTO" || is_unknown {
                    true => DownReason::NoResp3(error),
                    false => DownReason::Refused(error),
                },
            ));
        }
        *left -= 1;
    }
    Ok(())
}

/// Why a connection or a connection attempt failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the server closed the connection")]
    Ended,
    #[error("no {0} within {1:?}")]
    Late(&'static str, Duration),
    #[error("{0}")]
    Refused(DownReason),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("a reply was more than {0:?} overdue")]
    Stuck(Duration),
    #[error("the client was closed")]
    Closed,
}
