//! RabbitMQ and MariaDB for the fetcher, if the program was built with the feature `real-backends`.

use std::sync::Arc;

use anyhow::Result;
use freeboard_fetcher::{
    broker::Broker,
    store::{Directory, SlowStore},
};

/// A broker, and a function that tells whether it is connected.
pub(crate) type Connected = (Arc<dyn Broker>, Box<dyn Fn() -> bool + Send + Sync>);

#[cfg(feature = "real-backends")]
mod built {
    use freeboard_fetcher::{
        broker::{RabbitBroker, RabbitOptions},
        store::{MariaDbDirectory, MariaDbOptions, MariaDbStore},
    };

    use super::{Arc, Connected, Directory, Result, SlowStore};

    /// Fails if the real back ends are not built in.
    pub(crate) fn check() -> Result<()> {
        Ok(())
    }

    /// Connects to RabbitMQ; `name` is the prefix of the queues.
    pub(crate) fn broker(url: &str, name: String) -> Result<Connected> {
        let options = RabbitOptions {
            name,
            ..RabbitOptions::new(url)
        };
        let rabbit = Arc::new(RabbitBroker::connect(options)?);
        let broker = rabbit.clone();
        Ok((broker, Box::new(move || rabbit.is_connected())))
    }

    /// Connects to MariaDB.
    pub(crate) fn directory(url: &str) -> Result<Arc<dyn Directory>> {
        let directory = MariaDbDirectory::connect(MariaDbOptions::new(url))?;
        Ok(Arc::new(directory))
    }

    /// Connects to MariaDB as the slow store.
    pub(crate) fn store(url: &str) -> Result<Arc<dyn SlowStore>> {
        let store = MariaDbStore::connect(MariaDbOptions::new(url))?;
        Ok(Arc::new(store))
    }
}

#[cfg(not(feature = "real-backends"))]
mod built {
    use super::{Arc, Connected, Directory, Result, SlowStore};
    use crate::usage::Usage;

    const NOT_BUILT: &str = "RabbitMQ and MariaDB are not built in; build with \
                             `cargo build --release --features real-backends`";

    /// Fails if the real back ends are not built in.
    pub(crate) fn check() -> Result<()> {
        Err(Usage::new(NOT_BUILT).into())
    }

    pub(crate) fn broker(_: &str, _: String) -> Result<Connected> {
        Err(Usage::new(NOT_BUILT).into())
    }

    pub(crate) fn directory(_: &str) -> Result<Arc<dyn Directory>> {
        Err(Usage::new(NOT_BUILT).into())
    }

    pub(crate) fn store(_: &str) -> Result<Arc<dyn SlowStore>> {
        Err(Usage::new(NOT_BUILT).into())
    }
}

pub(crate) use built::{broker, check, directory, store};
