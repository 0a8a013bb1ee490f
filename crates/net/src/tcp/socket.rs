//! A connected socket. It reads and writes until a call would block; the poller then wakes its owner.

use std::{
    cell::RefCell,
    fmt,
    io::{self, Read},
    net::Shutdown,
    time::Duration,
};

use freeboard_platform::planted;

use crate::poller::{Poller, Ready, Registration, mio::Interest};

use super::{outgoing::Outgoing, stream::Stream};

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// The read buffer of all sockets of a thread, so that idle sockets hold no memory.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// So many bytes were read.
    Bytes(usize),
    /// The peer has shut down its sending side.
    End,
    /// Nothing can be read now.
    Nothing,
}

type Call = Box<dyn Fn() + Send + Sync>;

/// The socket's registration at the poller.
enum Watch {
    /// Not registered; the first [`Socket::wait`] registers.
    Later(Call),
    /// Registered for reading, and for writing once that was needed.
    Here {
        registration: Registration,
        is_for_writing: bool,
    },
}

/// A connected socket at a poller: TCP, or a Unix stream socket.
///
/// Readiness is edge-triggered: the socket counts as readable and writable until a call would block. An owner with
/// full buffers may stop in between and continue later.
pub struct Socket {
    // Declared before the stream, so that it is deregistered before the stream closes.
    watch: Option<Watch>,
    stream: Stream,
    poller: Poller,
    is_readable: bool,
    is_writable: bool,
    is_ended: bool,
    is_failed: bool,
    /// Whether the poller announced the peer's end; it is read after all bytes before it.
    is_end_announced: bool,
}

impl Socket {
    /// Registers a stream, which may still be connecting. `call` schedules its owner.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn new(
        stream: impl Into<Stream>,
        poller: &Poller,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let mut stream = stream.into();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watch = Watch::Here {
            registration: poller.register(&mut stream, interest, call)?,
            is_for_writing: true,
        };
        Ok(Self::with(watch, stream, poller))
    }

    /// Wraps an accepted stream, whose owner calls [`Socket::wait`] whenever it can make no progress. A connection
    /// that closes before that is never registered, which saves two system calls.
    pub fn accepted(
        stream: impl Into<Stream>,
        poller: &Poller,
        call: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::with(Watch::Later(Box::new(call)), stream.into(), poller)
    }

    fn with(watch: Watch, stream: Stream, poller: &Poller) -> Self {
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

    /// Schedules the owner when there is more to read, or when it can write again after a write would block.
    ///
    /// # Errors
    /// The error of the operating system; the owner is then not scheduled.
    pub fn wait(&mut self) -> io::Result<()> {
        let wants_write = !self.is_writable;
        let interest = if wants_write {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        if let Some(Watch::Here {
            registration,
            is_for_writing,
        }) = &mut self.watch
        {
            if wants_write && !*is_for_writing {
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
            is_for_writing: wants_write,
        });
        Ok(())
    }

    /// Takes the readiness found since the last call. The owner calls this whenever it is scheduled.
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

    /// Makes the next read ask the kernel: bytes may have arrived that no poll has found yet.
    pub fn assume_readable(&mut self) {
        self.is_readable = true;
    }

    /// Whether a read may return bytes.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_readable && !self.is_ended
    }

    /// The bytes that have arrived and are not read.
    pub(super) fn unread_bytes(&self) -> usize {
        self.stream.unread_bytes().unwrap_or(0)
    }

    /// Whether the peer has ended its side.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the connection is broken, or closed in both directions.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.is_failed
    }

    /// The error of a broken connection; none if it was closed in both directions. Reports it once.
    #[must_use]
    pub fn failure(&self) -> Option<io::Error> {
        if !self.is_failed {
            return None;
        }
        self.stream.take_error().ok().flatten()
    }

    /// Reads once, at most `limit` bytes (64 KiB at the most), and passes them to `take`.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn read(&mut self, limit: usize, take: impl FnOnce(&[u8])) -> io::Result<Arrived> {
        if !self.is_readable() || limit == 0 {
            return Ok(Arrived::Nothing);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let limit = limit.min(scratch.len());
            loop {
                match self.stream.read(&mut scratch[..limit]) {
                    Ok(0) => {
                        self.is_ended = true;
                        return Ok(Arrived::End);
                    }
                    Ok(count) => {
                        // A short read: the kernel has no more, and new bytes are a new edge. An end that was
                        // announced before is no new edge.
                        self.is_readable = count == limit
                            || self.is_end_announced && !planted!("announced-end-forgotten");
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

    /// Writes as much as the socket accepts. Whether all is written.
    ///
    /// # Errors
    /// The error of the operating system.
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

    /// Shuts down the sending side: the peer still reads everything that was written.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Closes the connection with a reset, so the peer learns that it broke and does not mistake it for the end.
    /// Bytes that the kernel has not sent yet are lost.
    ///
    /// On systems other than Unix, and on a Unix socket, the connection is closed without a reset.
    pub fn reset(self) {
        self.stream.set_reset_on_close();
    }

    /// Whether the connection is established.
    ///
    /// # Errors
    /// Why connecting failed.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.is_connected() {
            Ok(()) => Ok(true),
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

/// The most bytes that a lingering connection discards.
const BYTES_MAX: usize = 1 << 20;

/// How long a connection may linger. Its owner sets the deadline.
pub const LINGER_TIME: Duration = Duration::from_secs(2);

/// Discards what a peer still sends after this side has ended. If a socket is closed with unread bytes, the kernel
/// resets the connection, and the peer may lose bytes it has not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    left: usize,
}

/// The result of [`Linger::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingered {
    /// Bytes were discarded, and there may be more.
    More,
    /// Nothing can be read now.
    Nothing,
    /// The peer has ended or has sent too much, or the connection is broken.
    Over,
}

impl Default for Linger {
    fn default() -> Self {
        Self { left: BYTES_MAX }
    }
}

impl Linger {
    /// Reads once and discards the bytes.
    pub fn step(&mut self, socket: &mut Socket) -> Lingered {
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
