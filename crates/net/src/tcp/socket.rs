//! A connected socket: reads and writes until it would block, and is called when that changes.

use std::{
    cell::RefCell,
    io::{self, Read},
    net::{Shutdown, SocketAddr},
};

use freeboard_io::{Poller, Ready, Registration, mio::net::TcpStream};

use super::outgoing::Outgoing;

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Where all sockets of a thread read to first, so that idle ones hold no memory.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// So many bytes.
    Bytes(usize),
    /// The peer has ended its side.
    End,
    /// Nothing for now.
    Nothing,
}

/// A connected TCP socket at a poller.
///
/// Readiness is by edges: it is believed to be readable and writable until a call would block, so an
/// owner that stops in between (because it has no room for more) just goes on later.
#[derive(Debug)]
pub struct Socket {
    // Before the stream, whose closing ends the watching.
    registration: Registration,
    stream: TcpStream,
    poller: Poller,
    is_readable: bool,
    is_writable: bool,
    is_ended: bool,
    is_failed: bool,
    /// Whether the peer's end was announced; it is read once all before it is.
    is_end_announced: bool,
}

impl Socket {
    /// Watches a stream; `call` has its owner run.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(
        mut stream: TcpStream,
        poller: &Poller,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let registration = poller.register(&mut stream, call)?;
        Ok(Self {
            registration,
            stream,
            poller: poller.clone(),
            is_readable: true,
            is_writable: true,
            is_ended: false,
            is_failed: false,
            is_end_announced: false,
        })
    }

    /// Takes what was found since the last time. To be called whenever the owner was called.
    pub fn refresh(&mut self) -> Ready {
        let ready = self.registration.take();
        self.is_readable |= ready.is_readable();
        self.is_writable |= ready.is_writable();
        self.is_failed |= ready.is_error();
        self.is_end_announced |= ready.is_read_closed();
        ready
    }

    /// Has the next read ask the system: something may have come that no look has found yet.
    pub fn look_again(&mut self) {
        self.is_readable = true;
    }

    /// Whether a read may give something.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_readable && !self.is_ended
    }

    /// Whether the peer has ended its side.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the connection is broken, or closed both ways.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.is_failed
    }

    /// Why it is broken.
    #[must_use]
    pub fn failure(&self) -> io::Error {
        let error = self.stream.take_error().ok().flatten();
        error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
    }

    /// Reads once, at most `limit` bytes (64 KiB at the most), and shows them to `take`.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&mut self, limit: usize, take: impl FnOnce(&[u8])) -> io::Result<Arrived> {
        if !self.is_readable() || limit == 0 {
            return Ok(Arrived::Nothing);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let room = limit.min(scratch.len());
            loop {
                match self.stream.read(&mut scratch[..room]) {
                    Ok(0) => {
                        self.is_ended = true;
                        return Ok(Arrived::End);
                    }
                    Ok(count) => {
                        // Less than asked for: there is no more, and what comes is a new edge. The end
                        // is none if it was announced before.
                        self.is_readable = count == room || self.is_end_announced;
                        take(&scratch[..count]);
                        return Ok(Arrived::Bytes(count));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.poller.count_again();
                        self.is_readable = false;
                        return Ok(Arrived::Nothing);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Writes as much as the socket takes. Whether that was all.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, outgoing: &mut Outgoing) -> io::Result<bool> {
        if outgoing.is_empty() {
            return Ok(true);
        }
        if !self.is_writable {
            return Ok(false);
        }
        let is_all = outgoing.write_to(&mut self.stream)?;
        if !is_all {
            self.poller.count_again();
            self.is_writable = false;
        }
        Ok(is_all)
    }

    /// Ends this side: the peer reads to the end of what was written.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Whether a connect that was begun has come to its end.
    ///
    /// # Errors
    /// Why it failed.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// If there is no peer any more.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}
