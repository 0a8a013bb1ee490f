//! A connected socket: reads and writes until it would block, and is called when that changes.

use std::{
    cell::RefCell,
    fmt,
    io::{self, Read},
    net::Shutdown,
    time::Duration,
};

use crate::poller::{
    Poller, Ready, Registration,
    mio::{Interest, net::TcpStream},
};

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

type Call = Box<dyn Fn() + Send + Sync>;

/// What the poller does for a socket.
enum Watch {
    /// Nothing yet; the first [`Socket::wait`] begins it.
    Later(Call),
    /// It is watched for what can be read, and for room to write if that was wanted once.
    Here {
        registration: Registration,
        is_for_writing: bool,
    },
}

/// A connected TCP socket at a poller.
///
/// Readiness is by edges: it is believed to be readable and writable until a call would block, so an
/// owner that stops in between (because it has no room for more) just goes on later.
pub struct Socket {
    // Before the stream, whose closing ends the watching.
    watch: Option<Watch>,
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
    /// Watches a stream, which may still be connecting; `call` has its owner run.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(
        mut stream: TcpStream,
        poller: &Poller,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watch = Watch::Here {
            registration: poller.register(&mut stream, interest, call)?,
            is_for_writing: true,
        };
        Ok(Self::with(watch, stream, poller))
    }

    /// A stream that was accepted, whose owner calls [`Socket::wait`] whenever it can go on no further:
    /// one that is over before that is never watched, which saves two calls to the kernel.
    pub fn accepted(
        stream: TcpStream,
        poller: &Poller,
        call: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::with(Watch::Later(Box::new(call)), stream, poller)
    }

    fn with(watch: Watch, stream: TcpStream, poller: &Poller) -> Self {
        Self {
            watch: Some(watch),
            stream,
            poller: poller.clone(),
            is_readable: true,
            is_writable: true,
            is_ended: false,
            is_failed: false,
            is_end_announced: false,
        }
    }

    /// Has the owner run when there is more to read, or room to write again if there was none.
    ///
    /// # Errors
    /// What the system says; the owner must not count on being called then.
    pub fn wait(&mut self) -> io::Result<()> {
        let wants_room = !self.is_writable;
        let interest = if wants_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        if let Some(Watch::Here {
            registration,
            is_for_writing,
        }) = &mut self.watch
        {
            if wants_room && !*is_for_writing {
                registration.set_interest(&mut self.stream, interest)?;
                *is_for_writing = true;
            }
            return Ok(());
        }
        let Some(Watch::Later(call)) = self.watch.take() else {
            return Ok(());
        };
        let registration = self.poller.register(&mut self.stream, interest, call)?;
        self.watch = Some(Watch::Here {
            registration,
            is_for_writing: wants_room,
        });
        Ok(())
    }

    /// Takes what was found since the last time. To be called whenever the owner was called.
    pub fn refresh(&mut self) -> Ready {
        let Some(Watch::Here { registration, .. }) = &self.watch else {
            return Ready::default();
        };
        let ready = registration.take();
        self.is_readable |= ready.is_readable();
        self.is_writable |= ready.is_writable();
        self.is_failed |= ready.is_error();
        self.is_end_announced |= ready.is_read_closed();
        ready
    }

    /// Has the next read ask the system: something may have come that no look has found yet.
    pub fn assume_readable(&mut self) {
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

    /// Why it is broken, if it is: one that was closed both ways has come to its end. Says so once.
    #[must_use]
    pub fn failure(&self) -> Option<io::Error> {
        if !self.is_failed {
            return None;
        }
        self.stream.take_error().ok().flatten()
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

    /// Closes the connection with a reset: the peer is told that it broke, and not that it came to its end. What the
    /// kernel has not sent yet is lost.
    ///
    /// Other systems than Unix send an orderly end.
    pub fn reset(self) {
        // Where it cannot be set, the connection is closed all the same.
        #[cfg(unix)]
        let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
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
}

impl fmt::Debug for Socket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Socket")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// The most that is thrown away.
const BYTES_MAX: usize = 1 << 20;

/// How long a connection may linger. Its owner sets the deadline.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(2);

/// The bytes that may still be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linger {
    left: usize,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lingered {
    /// Something was thrown away, and there may be more.
    More,
    /// Nothing for now.
    Nothing,
    /// The peer has ended, or has sent too much, or the connection is broken.
    Over,
}

impl Linger {
    pub(crate) const fn new() -> Self {
        Self { left: BYTES_MAX }
    }

    /// Reads once, and throws it away.
    pub(crate) fn step(&mut self, socket: &mut Socket) -> Lingered {
        match socket.read(self.left, |_| ()) {
            Ok(Arrived::Bytes(count)) if count < self.left => {
                self.left -= count;
                Lingered::More
            }
            Ok(Arrived::Nothing) => Lingered::Nothing,
            Ok(Arrived::Bytes(_) | Arrived::End) | Err(_) => Lingered::Over,
        }
    }
}
