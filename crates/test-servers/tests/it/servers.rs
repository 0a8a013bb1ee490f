//! The servers come up, go, and come again.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use freeboard_test_servers::{Server, ServerError, create_bucket, mariadb, rabbitmq, redis, s3};

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
