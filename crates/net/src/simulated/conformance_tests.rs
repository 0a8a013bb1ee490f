//! Random scripts of calls on a connection have the same results on the simulated network as on Linux.

use std::{
    fmt, io,
    io::{Read, Write},
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use freeboard_actor::testing::TestSystem;
use freeboard_flow::random;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    poller::{Policy, Poller, Ready},
    simulated::{Network, NetworkSettings},
    tcp::{ListenSocket, Stream},
};

/// How long Linux may take for what the simulated network has done.
const DEADLINE: Duration = Duration::from_secs(20);
const SCRIPTS: u64 = 2_000;
const STEPS: u64 = 20;

/// A call of one side.
#[derive(Clone, Copy, Debug)]
enum Call {
    Write(usize),
    /// Reads until a call would block, fails or finds the end.
    Read,
    Shutdown,
    TakeError,
    IsConnected,
    Close,
    /// Closes with a reset.
    Reset,
}

impl Call {
    fn chosen_by(number: u64) -> Self {
        match number % 16 {
            0..5 => Self::Write(1 + (number >> 8) as usize % 1_000),
            5..9 => Self::Read,
            9..11 => Self::Shutdown,
            11 => Self::TakeError,
            12 => Self::IsConnected,
            13..15 => Self::Close,
            _ => Self::Reset,
        }
    }
}

/// The result of a call: bytes, and how it ended.
#[derive(Clone, PartialEq, Eq)]
struct Outcome(usize, Result<&'static str, io::ErrorKind>);

impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.0, self.1)
    }
}

fn read(stream: &mut Stream) -> Outcome {
    let (mut bytes, mut buffer) = (0, [0; 4_096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Outcome(bytes, Ok("end")),
            Ok(count) => bytes += count,
            Err(error) => return Outcome(bytes, Err(error.kind())),
        }
    }
}

/// As mio and [`Ready::of`] translate events.
fn ready_of(events: PollFlags) -> Ready {
    let has = |flag| events.contains(flag);
    let mut bits = 0;
    if has(PollFlags::IN) {
        bits |= Ready::READ;
    }
    if has(PollFlags::OUT) {
        bits |= Ready::WRITE;
    }
    if has(PollFlags::HUP) || has(PollFlags::IN) && has(PollFlags::RDHUP) {
        bits |= Ready::READ | Ready::READ_CLOSED;
    }
    if has(PollFlags::ERR) || has(PollFlags::HUP) {
        bits |= Ready::READ | Ready::WRITE | Ready::ERROR;
    }
    Ready::from_bits(bits)
}

/// Two sides, of which each may be closed.
struct Pair([Option<Stream>; 2]);

impl Pair {
    /// `None` if the side is closed.
    fn call(&mut self, side: usize, call: Call) -> Option<Outcome> {
        let done = |result: io::Result<()>| match result {
            Ok(()) => Outcome(0, Ok("done")),
            Err(error) => Outcome(0, Err(error.kind())),
        };
        let stream = self.0[side].as_mut()?;
        Some(match call {
            Call::Write(bytes) => match stream.write(&vec![7; bytes]) {
                Ok(bytes) => Outcome(bytes, Ok("written")),
                Err(error) => Outcome(0, Err(error.kind())),
            },
            Call::Read => read(stream),
            Call::Shutdown => done(stream.shutdown(Shutdown::Write)),
            Call::TakeError => match stream.take_error() {
                Ok(Some(error)) => Outcome(0, Err(error.kind())),
                _ => Outcome(0, Ok("no error")),
            },
            Call::IsConnected => done(stream.is_connected()),
            Call::Close | Call::Reset => {
                if matches!(call, Call::Reset) {
                    stream.set_reset_on_close();
                }
                self.0[side] = None;
                done(Ok(()))
            }
        })
    }

    /// The readiness of both sides, as the poller reports it, and their unread bytes.
    fn readiness(&self) -> [Option<(Ready, usize)>; 2] {
        self.0.each_ref().map(|stream| match stream.as_ref()? {
            Stream::Simulated(stream) => Some(stream.readiness()),
            Stream::Tcp(stream) => {
                let all = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
                let mut polled = [PollFd::new(stream, all)];
                poll(&mut polled, Some(&Timespec::default())).expect("a poll");
                let unread = rustix::io::ioctl_fionread(stream).expect("a count");
                Some((ready_of(polled[0].revents()), unread as usize))
            }
            Stream::Unix(_) => None,
        })
    }

    /// Connects, and calls `wait` until both sides are connected.
    fn connect(poller: &Poller, address: [u8; 4], wait: impl Fn()) -> Self {
        let (listener, address): (ListenSocket, _) =
            poller.listen((address, 0).into(), 16).expect("a free port");
        let client = poller.connect(address).expect("it listens");
        let server = loop {
            wait();
            match listener.accept() {
                Ok((server, _)) => break server,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        while client.is_connected().is_err() {
            wait();
        }
        Self([Some(client), Some(server)])
    }
}

#[test]
fn calls_have_the_same_results_as_on_linux() {
    let kernel = Poller::new(1, Policy::EAGER).expect("a poller");
    for seed in 0..SCRIPTS {
        let system = TestSystem::new(seed);
        let settings = NetworkSettings {
            seed,
            ..NetworkSettings::default()
        };
        let network = Network::new(system.executor(), settings);
        let settle = || system.advance(Duration::from_secs(1));
        let poller = Poller::simulated(&network.host([10, 0, 0, 1]));
        let mut simulated = Pair::connect(&poller, [10, 0, 0, 1], settle);
        let mut real = Pair::connect(&kernel, [127, 0, 0, 1], thread::yield_now);
        let mut script = Vec::new();
        for step in 0..STEPS {
            let number = random::number(seed, step);
            let (side, call) = ((number >> 40) as usize % 2, Call::chosen_by(number));
            let wanted = simulated.call(side, call);
            settle();
            script.push((side, call, wanted.clone()));
            assert_eq!(real.call(side, call), wanted, "seed {seed}: {script:#?}");
            let wanted = simulated.readiness();
            let began = Instant::now();
            // What a packet causes may come later.
            while real.readiness() != wanted && began.elapsed() < DEADLINE {
                thread::yield_now();
            }
            assert_eq!(real.readiness(), wanted, "seed {seed}: {script:#?}");
        }
    }
}
