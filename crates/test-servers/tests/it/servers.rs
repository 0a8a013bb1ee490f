//! The servers come up, go, and come again.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use freeboard_test_servers::{
    JetStream, Server, ServerError, create_bucket, mariadb, nats, rabbitmq, redis, s3,
};

/// Checks that it can be killed and started again on the same port.
fn check(start: fn() -> Result<Server, ServerError>, is_there: fn(&Server) -> bool) {
    let mut server = start().expect("it is installed");
    let address = server.address();
    assert!(is_there(&server));
    server.kill();
    assert!(TcpStream::connect(address).is_err());
    server.restart().expect("it starts again");
    assert_eq!(server.address(), address);
    assert!(is_there(&server));
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn mariadb_greets() {
    check(mariadb, |server| {
        let mut greeting = [0; 32];
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.read_exact(&mut greeting).expect("a greeting");
        greeting.windows(7).any(|word| word == b"MariaDB")
    });
}

#[test]
fn redis_answers() {
    check(
        || redis(&["--maxclients", "100"]),
        |server| {
            let mut stream = TcpStream::connect(server.address()).expect("it listens");
            stream.write_all(b"PING\r\n").expect("it reads");
            let mut answer = [0; 7];
            stream.read_exact(&mut answer).expect("an answer");
            answer == *b"+PONG\r\n"
        },
    );
}

#[test]
fn rabbitmq_speaks_amqp() {
    check(rabbitmq, |server| {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.write_all(b"AMQP\0\0\x09\x01").expect("it reads");
        // A method on channel 0: connection.start.
        let mut head = [0; 3];
        stream.read_exact(&mut head).expect("an answer");
        head == [1, 0, 0]
    });
}

#[test]
fn s3_creates_a_bucket() {
    check(
        || s3(true),
        |server| create_bucket(server, "archive").is_ok(),
    );
    let server = s3(false).expect("it is installed");
    assert!(create_bucket(&server, "archive").is_err());
}

/// A connection that has greeted, and the server's description of itself.
fn nats_connection(server: &Server) -> (BufReader<TcpStream>, String) {
    let stream = TcpStream::connect(server.address()).expect("it listens");
    let mut stream = BufReader::new(stream);
    let mut description = String::new();
    stream.read_line(&mut description).expect("a greeting");
    let greeting = b"CONNECT {\"verbose\":false}\r\nPING\r\n";
    stream.get_mut().write_all(greeting).expect("it reads");
    assert_eq!(nats_line(&mut stream), "PONG");
    (stream, description)
}

fn nats_line(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("an answer");
    line.trim_end().to_owned()
}

/// Whether JetStream does this without an error.
fn jetstream_accepts(server: &Server, call: &str, body: &str) -> bool {
    let (mut stream, _) = nats_connection(server);
    let length = body.len();
    let request = format!("SUB answer 1\r\nPUB $JS.API.{call} answer {length}\r\n{body}\r\n");
    let sent = stream.get_mut().write_all(request.as_bytes());
    sent.expect("it reads");
    let head = nats_line(&mut stream);
    assert!(head.starts_with("MSG answer 1 "), "{head}");
    let answer = nats_line(&mut stream);
    !answer.contains(r#""error":"#)
}

#[test]
fn nats_answers() {
    check(
        || nats(JetStream::Off, "max_payload: 2048"),
        |server| {
            let (_, description) = nats_connection(server);
            !description.contains(r#""jetstream":true"#)
                && description.contains(r#""max_payload":2048"#)
        },
    );
}

#[test]
fn nats_keeps_its_streams_until_it_is_restarted_empty() {
    let mut server = nats(JetStream::On, "").expect("it is installed");
    let address = server.address();
    let body = r#"{"name":"S","subjects":["s"],"storage":"file","num_replicas":1}"#;
    let has_stream = |server: &Server| jetstream_accepts(server, "STREAM.INFO.S", "");
    assert!(!has_stream(&server));
    assert!(jetstream_accepts(&server, "STREAM.CREATE.S", body));
    server.restart().expect("it starts again");
    assert!(has_stream(&server));
    server.restart_empty().expect("it starts again");
    assert_eq!(server.address(), address);
    assert!(!has_stream(&server));
}

#[test]
fn the_error_names_a_setting_that_nats_does_not_know() {
    let error = nats(JetStream::Off, "max_paylod: 1024").expect_err("it is wrong");
    assert!(error.to_string().contains("max_paylod"), "{error}");
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let mut server = nats(JetStream::Off, "").expect("it is installed");
    let (mut stream, _) = nats_connection(&server);
    server.pause().expect("it runs");
    stream.get_mut().write_all(b"PING\r\n").expect("it is open");
    let timeout = Some(Duration::from_millis(20));
    stream
        .get_ref()
        .set_read_timeout(timeout)
        .expect("not zero");
    let kind = stream.fill_buf().expect_err("no answer").kind();
    assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut));
    server.resume().expect("it runs");
    stream.get_ref().set_read_timeout(None).expect("it is open");
    assert_eq!(nats_line(&mut stream), "PONG");
    server.kill();
    assert!(server.pause().is_err());
}
