//! RESP2 over TCP, as redis-cli and redis-benchmark speak it.
//!
//! A connection sends all requests of one read to the partitions before it waits for the first reply. So a pipeline costs
//! about one write to the disk.
//!
//! Inline commands, which are lines without lengths, are refused: a web page could have a browser send them.

use std::{io, ops::Bound, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use freeboard::redis::protocol::{Limits, Parser, Value};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
    time::{sleep, timeout},
};

use crate::{Command, Condition, ENTRY_BYTES_MAX, Kvs, RANGE_BYTES_MAX, Reply, request};

/// The most connections at once; further ones get an error.
pub const CONNECTIONS_MAX: usize = 1_024;

/// The most requests of a connection that wait for their replies.
pub const PIPELINE_MAX: usize = 1_024;

/// The most entries that `RANGE` returns.
pub const RANGE_MAX: usize = 10_000;

/// Replies are written when they take so many bytes, or when the last of a pipeline is there.
const OUTPUT_BYTES: usize = 256 << 10;

/// The bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// A client that reads no reply for so long is disconnected: its replies keep values in memory.
const WRITE_TIME_MAX: Duration = Duration::from_secs(60);

/// After a malformed request, so much time is left to read why.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Serves connections until the future is dropped.
pub async fn serve(listener: TcpListener, store: Arc<Kvs>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((mut socket, _)) = listener.accept().await else {
            // There may be too many open files: the connections go on, and some will be closed.
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // It fails if the client has gone.
        let _ = socket.set_nodelay(true);
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            let _ = socket.try_write(b"-ERR max number of clients reached\r\n");
            continue;
        };
        let store = store.clone();
        tokio::spawn(async move {
            // The client has gone.
            let _ = connection(&mut socket, &store).await;
            drop(permit);
        });
    }
}

/// A reply, or who has it.
enum Pending {
    Ready(Reply),
    /// One reply, or numbers that are added up.
    Replies(Vec<oneshot::Receiver<Reply>>),
}

impl Pending {
    fn error(text: impl Into<String>) -> Self {
        Self::Ready(Reply::Error(text.into()))
    }

    async fn wait(self) -> Reply {
        let receivers = match self {
            Self::Ready(reply) => return reply,
            Self::Replies(receivers) => receivers,
        };
        let mut sum = 0;
        for receiver in receivers {
            match receiver.await {
                Ok(Reply::Integer(number)) => sum += number,
                Ok(other) => return other,
                Err(_) => return Reply::Error("ERR the store is stopping".to_owned()),
            }
        }
        Reply::Integer(sum)
    }
}

async fn connection(socket: &mut TcpStream, store: &Kvs) -> io::Result<()> {
    let mut parser = Parser::new(Limits {
        bulk_bytes: ENTRY_BYTES_MAX as u64,
        elements: 1_024,
        reply_bytes: 2 * ENTRY_BYTES_MAX as u64,
        nesting: 1,
    });
    let mut input = BytesMut::with_capacity(READ_BYTES);
    let mut output = Vec::new();
    while socket.read_buf(&mut input).await? > 0 {
        let mut unread = &input[..];
        let mut is_broken = false;
        while !unread.is_empty() && !is_broken {
            let mut pending = Vec::new();
            while pending.len() < PIPELINE_MAX {
                match parser.next(&mut unread) {
                    Ok(None) => break,
                    Ok(Some(request)) => {
                        pending.push(dispatch(store, request).await);
                        // A range may be large, so that it is sent before the next request begins.
                        if matches!(pending.last(), Some(Pending::Ready(Reply::Values(_)))) {
                            break;
                        }
                    }
                    Err(error) => {
                        pending.push(Pending::error(format!("ERR Protocol error: {error}")));
                        is_broken = true;
                        break;
                    }
                }
            }
            for reply in pending {
                encode(&reply.wait().await, &mut output);
                if output.len() >= OUTPUT_BYTES {
                    send(socket, &mut output).await?;
                }
            }
            send(socket, &mut output).await?;
        }
        if is_broken {
            // A socket that is closed with unread bytes resets the connection, and the client would lose the reply.
            socket.shutdown().await?;
            let rest = async { tokio::io::copy(socket, &mut tokio::io::sink()).await };
            let _ = timeout(REFUSAL_TIME_MAX, rest).await;
            break;
        }
        input.clear();
    }
    Ok(())
}

async fn send(socket: &mut TcpStream, output: &mut Vec<u8>) -> io::Result<()> {
    let mut left = &output[..];
    while !left.is_empty() {
        let count = timeout(WRITE_TIME_MAX, socket.write(left)).await??;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        left = &left[count..];
    }
    output.clear();
    output.shrink_to(2 * OUTPUT_BYTES);
    Ok(())
}

/// Begins a request. The order of requests to one partition is that of the calls.
async fn dispatch(store: &Kvs, wanted: Value) -> Pending {
    let Value::Array(parts) = wanted else {
        return Pending::error("ERR Protocol error: expected an array");
    };
    let mut words = Vec::with_capacity(parts.len());
    for part in parts {
        let Value::Bulk(word) = part else {
            return Pending::error("ERR Protocol error: expected strings");
        };
        words.push(word);
    }
    let name = words.first().map_or(&b""[..], |name| &name[..]);
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let begin = async |commands: Vec<(usize, Command)>| {
        let mut replies = Vec::with_capacity(commands.len());
        for (partition, command) in commands {
            replies.push(request(&store.partitions[partition], command).await);
        }
        Pending::Replies(replies)
    };
    let on = |key: &Bytes, command| vec![(store.partition_of(key), command)];
    let put = |key: &Bytes, value: &Bytes, condition| {
        on(key, Command::Put(key.clone(), value.clone(), condition))
    };
    match (name.as_str(), &words[words.len().min(1)..]) {
        ("PING", []) => Pending::Ready(Reply::Value("PONG".into())),
        ("PING" | "ECHO", [text]) => Pending::Ready(Reply::Value(text.clone())),
        // Clients ask them when they begin, and go on with an empty answer.
        ("CONFIG", [_, name]) => Pending::Ready(Reply::Values(vec![name.clone(), Bytes::new()])),
        ("COMMAND", _) => Pending::Ready(Reply::Values(Vec::new())),
        ("CLIENT", _) => Pending::Ready(Reply::Ok),
        ("SELECT", [index]) if index == "0" => Pending::Ready(Reply::Ok),
        ("SELECT", _) => Pending::error("ERR there is only database 0"),
        ("INFO", _) => Pending::Ready(Reply::Value(store.info().into())),
        ("GET", [key]) => begin(on(key, Command::Get(key.clone()))).await,
        // The conditions are those of Redis 8.4.
        ("SET", [key, value]) => begin(put(key, value, Condition::Always)).await,
        ("SET", [key, value, nx]) if nx.eq_ignore_ascii_case(b"NX") => {
            begin(put(key, value, Condition::Missing)).await
        }
        ("SET", [key, value, ifeq, old]) if ifeq.eq_ignore_ascii_case(b"IFEQ") => {
            begin(put(key, value, Condition::Equals(old.clone()))).await
        }
        ("SET", [_, _, ..]) => Pending::error("ERR syntax error"),
        ("DEL", keys @ [_, ..]) => {
            let delete = |key: &Bytes| on(key, Command::Delete(key.clone()));
            begin(keys.iter().flat_map(delete).collect()).await
        }
        ("DBSIZE", []) => {
            let partitions = 0..store.partitions.len();
            begin(partitions.map(|it| (it, Command::Count)).collect()).await
        }
        ("RANGE", [from, to, limit]) => Pending::Ready(range(store, from, to, limit).await),
        ("GET" | "SET" | "DEL" | "DBSIZE" | "RANGE" | "ECHO", _) => Pending::error(format!(
            "ERR wrong number of arguments for '{}' command",
            name.to_ascii_lowercase()
        )),
        _ => Pending::error(format!("ERR unknown command '{name}'")),
    }
}

/// The entries from a key up to and without another, in order; `-` and `+` are the ends. Of one partition they are of one
/// moment. There may be fewer than asked for, but not none, if they take more than [`RANGE_BYTES_MAX`].
async fn range(store: &Kvs, from: &Bytes, to: &Bytes, limit: &[u8]) -> Reply {
    let limit = str::from_utf8(limit)
        .ok()
        .and_then(|limit| limit.parse().ok());
    let Some(limit) = limit.filter(|limit: &usize| *limit <= RANGE_MAX) else {
        return Reply::Error(format!("ERR the limit is a number up to {RANGE_MAX}"));
    };
    let (first, lower) = match &from[..] {
        b"-" => (0, Bound::Unbounded),
        _ => (store.partition_of(from), Bound::Included(from.clone())),
    };
    let (last, upper) = match &to[..] {
        b"+" => (store.partitions.len() - 1, Bound::Unbounded),
        _ => (store.partition_of(to), Bound::Excluded(to.clone())),
    };
    if lower != Bound::Unbounded && upper != Bound::Unbounded && from >= to {
        return Reply::Values(Vec::new());
    }
    let mut values = Vec::new();
    for partition in first..=last {
        let command = Command::Range(lower.clone(), upper.clone(), limit - values.len() / 2);
        let reply = request(&store.partitions[partition], command).await;
        match Pending::Replies(vec![reply]).wait().await {
            Reply::Values(mut more) => values.append(&mut more),
            other => return other,
        }
        let bytes: usize = values.iter().map(Bytes::len).sum();
        if values.len() / 2 == limit || bytes >= RANGE_BYTES_MAX {
            break;
        }
    }
    Reply::Values(values)
}

fn encode(reply: &Reply, output: &mut Vec<u8>) {
    let bulk = |output: &mut Vec<u8>, bytes: &[u8]| {
        output.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
        output.extend_from_slice(bytes);
        output.extend_from_slice(b"\r\n");
    };
    match reply {
        Reply::Ok => output.extend_from_slice(b"+OK\r\n"),
        Reply::Null => output.extend_from_slice(b"$-1\r\n"),
        Reply::Integer(number) => output.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Value(value) => bulk(output, value),
        Reply::Values(values) => {
            output.extend_from_slice(format!("*{}\r\n", values.len()).as_bytes());
            values.iter().for_each(|value| bulk(output, value));
        }
        Reply::Error(text) => {
            // A line break would end the reply.
            let text = text.replace(['\r', '\n'], " ");
            output.extend_from_slice(format!("-{text}\r\n").as_bytes());
        }
    }
}
