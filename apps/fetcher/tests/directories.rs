//! Both directories keep the same contract.

#![cfg(unix)]

mod contract;
mod directory;

use directory::{CLAUSES, Subject};
use freeboard_fetcher::store::{MariaDbDirectory, MariaDbOptions, SqliteDirectory, SqliteOptions};
use freeboard_test_servers::{ServerError, mariadb};
use mysql_async::{Conn, prelude::Queryable};

const INSERT: &str = "INSERT INTO devices (user, device) VALUES (?, ?)";

#[test]
fn the_directory_in_a_file_keeps_it() {
    for (name, clause) in CLAUSES {
        contract::say(name);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        let options = SqliteOptions {
            path: Some(path.clone()),
            ..SqliteOptions::default()
        };
        let directory = SqliteDirectory::open(options).expect("it opens");
        let insert = |user: &str, device: &str| {
            let connection = rusqlite::Connection::open(&path).expect("it opens");
            let inserted = connection.execute(INSERT, [user, device]);
            assert_eq!(inserted, Ok(1), "{user}");
        };
        clause(&Subject {
            directory: &directory,
            insert: &insert,
        });
    }
}

#[test]
fn mariadb_keeps_it() {
    let server = match mariadb() {
        Err(error @ ServerError::Missing { .. }) => {
            contract::say(&format!("left out: {error}"));
            return;
        }
        server => server.expect("it comes up"),
    };
    let root = format!("mysql://root@{}", server.address());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let execute = |database: &str, statement: &str, values: Vec<&str>| {
        runtime.block_on(async {
            let url = format!("{root}/{database}");
            let mut connection = Conn::from_url(url).await.expect("a connection");
            let done = connection.exec_drop(statement, values).await;
            done.expect("it is done");
            connection.disconnect().await.expect("it ends");
        });
    };
    for (number, (name, clause)) in CLAUSES.iter().enumerate() {
        contract::say(name);
        let database = format!("clause{number}");
        execute("mysql", &format!("CREATE DATABASE {database}"), Vec::new());
        let options = MariaDbOptions::new(format!("{root}/{database}"));
        let directory = MariaDbDirectory::connect(options).expect("a connection");
        let insert = |user: &str, device: &str| execute(&database, INSERT, vec![user, device]);
        clause(&Subject {
            directory: &directory,
            insert: &insert,
        });
    }
}
