//! What a new connection says first, and whether it is answered well.

use bytes::BytesMut;

use crate::{command::Command, error::DownReason, options::RedisOptions, protocol::Value};

/// The greeting, while its replies come.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    replies_left: usize,
}

impl Greeting {
    /// Writes it: `HELLO 3` with name and password, and the database.
    pub(crate) fn begin(options: &RedisOptions, to: &mut BytesMut) -> Self {
        let mut hello = Command::new("HELLO").integer(3);
        if let Some(password) = &options.password {
            let user = options.username.as_deref().unwrap_or("default");
            hello = hello.arg("AUTH").arg(user).arg(password);
        }
        if let Some(name) = &options.client_name {
            hello = hello.arg("SETNAME").arg(name);
        }
        hello.encode(to);
        if options.database == 0 {
            return Self { replies_left: 1 };
        }
        let select = Command::new("SELECT").integer(options.database.into());
        select.encode(to);
        Self { replies_left: 2 }
    }

    /// Takes a reply.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) fn reply(&mut self, value: &Value) -> Result<(), DownReason> {
        if let Value::Error(error) = value {
            let is_unknown = error.message().starts_with("unknown command");
            return Err(if is_unknown || error.code() == "NOPROTO" {
                DownReason::NoResp3(error.clone())
            } else {
                DownReason::Refused(error.clone())
            });
        }
        self.replies_left = self.replies_left.saturating_sub(1);
        Ok(())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.replies_left == 0
    }
}
