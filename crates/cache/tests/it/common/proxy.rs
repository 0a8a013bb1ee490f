//! Proxies before the server: one that holds answers back on demand, and one that delays a script.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

/// The answers that pass.
#[derive(Clone, Default)]
pub(crate) struct Hold(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    is_held: bool,
    /// Answers that pass although others are held.
    steps: usize,
    is_cut: bool,
    held_bytes: usize,
}

impl Hold {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let outcome = act(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        outcome
    }

    /// No answer passes from now on.
    pub(crate) fn hold(&self) {
        self.with(|state| (state.is_held, state.held_bytes) = (true, 0));
    }

    /// Held answers pass; following ones are held.
    pub(crate) fn step(&self) {
        self.with(|state| (state.steps, state.held_bytes) = (1, 0));
    }

    /// Held and following answers pass.
    pub(crate) fn pass(&self) {
        self.with(|state| state.is_held = false);
    }

    /// Held answers and the connection are lost.
    pub(crate) fn cut(&self) {
        self.with(|state| (state.is_held, state.is_cut) = (false, true));
    }

    /// Bytes that were held back.
    pub(crate) fn held_bytes(&self) -> usize {
        self.with(|state| state.held_bytes)
    }

    /// Waits for leave to pass bytes on. Whether there is.
    fn may_pass(&self, bytes: usize) -> bool {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        if state.is_held {
            state.held_bytes += bytes;
        }
        let is_held = |state: &mut State| state.is_held && state.steps == 0;
        let mut state = changed.wait_while(state, is_held).unwrap();
        state.steps = state.steps.saturating_sub(1);
        !state.is_cut
    }
}

/// Accepts connections and connects each to `port`. Returns its own port.
fn listen(port: u16, mut each: impl FnMut(TcpStream, TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let own_port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port))) else {
                return;
            };
            each(client, server);
        }
    });
    own_port
}

/// Passes connections on to `port`. Returns its own port, and the holds of the first connections' answers, in the order
/// in which they were made; later connections pass freely.
pub(crate) fn proxy(port: u16, connections: usize) -> (u16, Vec<Hold>) {
    let holds: Vec<Hold> = (0..connections).map(|_| Hold::default()).collect();
    let mut of_connections = holds.clone().into_iter();
    let own_port = listen(port, move |client, server| {
        pass(client, server, of_connections.next().unwrap_or_default());
    });
    (own_port, holds)
}

fn pass(client: TcpStream, server: TcpStream, hold: Hold) {
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || copy(from_client, to_server, |_| true));
    thread::spawn(move || copy(server, client, |bytes| hold.may_pass(bytes)));
}

fn copy(mut from: TcpStream, mut to: TcpStream, may_pass: impl Fn(usize) -> bool) {
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !may_pass(count) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A network that keeps one script.
pub(crate) struct Keeping {
    pub(crate) port: u16,
    is_armed: Arc<AtomicBool>,
    kept: mpsc::Receiver<Kept>,
}

/// A delayed script. Later requests of its client do not arrive.
pub(crate) struct Kept {
    script: Vec<u8>,
    client: TcpStream,
    server: TcpStream,
    answers: mpsc::Receiver<()>,
}

impl Keeping {
    /// The next script of its first connection.
    pub(crate) fn keep(&self, ask: impl FnOnce()) -> Kept {
        self.is_armed.store(true, Ordering::SeqCst);
        ask();
        self.kept.recv().unwrap()
    }
}

impl Kept {
    /// The client loses its connection.
    pub(crate) fn lose(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
    }

    /// It arrives, and runs.
    pub(crate) fn arrive(mut self) {
        while self.answers.try_recv().is_ok() {}
        self.server.write_all(&self.script).unwrap();
        self.answers.recv().unwrap();
    }
}

/// Passes connections on to `port`, the first one without one script.
pub(crate) fn keeping(port: u16) -> Keeping {
    let is_armed = Arc::new(AtomicBool::new(false));
    let (sender, kept) = mpsc::channel();
    let armed = is_armed.clone();
    let mut first = Some((sender, armed));
    let port = listen(port, move |client, server| {
        let Some((kept, armed)) = first.take() else {
            return pass(client, server, Hold::default());
        };
        let ends = || (client.try_clone().unwrap(), server.try_clone().unwrap());
        let ((from_client, to_server), (to_client, from_server)) = (ends(), ends());
        let (answered, answers) = mpsc::channel();
        thread::spawn(move || answer(from_server, to_client, &answered));
        thread::spawn(move || {
            let script = ask(from_client, to_server, &armed);
            let _ = kept.send(Kept {
                script,
                client,
                server,
                answers,
            });
        });
    });
    Keeping {
        port,
        is_armed,
        kept,
    }
}

/// Passes bytes on up to a script, which it returns.
fn ask(mut from: TcpStream, mut to: TcpStream, is_armed: &AtomicBool) -> Vec<u8> {
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        let is_script = bytes.windows(7).any(|it| it == b"EVALSHA");
        if is_script && is_armed.load(Ordering::SeqCst) {
            return bytes.to_vec();
        }
        let _ = to.write_all(bytes);
    }
    Vec::new()
}

/// Passes answers on while the client reads them.
fn answer(mut from: TcpStream, mut to: TcpStream, answered: &mpsc::Sender<()>) {
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let _ = to.write_all(&buffer[..count]);
        let _ = answered.send(());
    }
}
