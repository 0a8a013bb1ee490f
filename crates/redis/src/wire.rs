//! What belongs to one socket, and the greeting on it.

use std::{io, net::SocketAddr};

use freeboard_net::poller::{Poller, mio::net::TcpStream};
use freeboard_net::tcp::{Arrived, Outgoing, Socket};

use crate::{
    failure::Failure,
    greeting::Greeting,
    options::RedisOptions,
    protocol::{Limits, Malformed, Parser},
};

/// The most bytes of one read.
pub(crate) const READ_BYTES: usize = 64 << 10;

pub(crate) struct Wire {
    pub(crate) socket: Socket,
    pub(crate) parser: Parser,
    pub(crate) outgoing: Outgoing,
    greeting: Greeting,
}

impl Wire {
    /// Begins to connect; `call` has the owner run when there is something to do.
    pub(crate) fn connect(
        address: SocketAddr,
        poller: &Poller,
        limits: Limits,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        // What is written is whole batches; waiting for more would only delay them.
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

    /// Goes on with the greeting as far as it can. Whether it is answered.
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
