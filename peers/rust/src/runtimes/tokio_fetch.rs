//! The fetcher as it is written without Freeboard: a tokio task for each notification.
//!
//! ```text
//!   lapin ──prefetch──► a task each ─┬─ keys: moka, single flight ──► redis-rs ──► 64 at once: the store
//!                                    ├─ device: mysql_async, or the embedded directory
//!                                    └─ publish, confirm, acknowledge
//! ```

mod answer;
mod devices;
mod embedded;
mod keys;
mod rabbit;

use std::sync::Arc;

use anyhow::Result;

use crate::countdown::Countdown;
use crate::fetch::{EmbeddedBed, Entries, RealBed, Stores};
use crate::finish;
use crate::outcome::Outcome;
use crate::runtimes::tokio_runtime;
use answer::LookUps;
use devices::Devices;
use embedded::MemoryService;
use keys::Keys;
use rabbit::RabbitService;

pub fn embedded(count: u64) -> Result<Outcome> {
    let bed = EmbeddedBed::start(Entries::Plain, count)?;
    let runtime = tokio_runtime::start_with_io()?;
    let look_ups = LookUps {
        keys: runtime.block_on(Keys::connect(&bed.redis()))?,
        devices: Devices::Embedded(bed.directory()),
    };
    let service = Arc::new(MemoryService::new(bed.broker(), look_ups));
    let consumers = service.start(&runtime)?;
    let outcome = bed.load()?;
    drop(consumers);
    Ok(service.times().add_to(outcome))
}

pub fn real(count: u64) -> Result<Outcome> {
    let bed = RealBed::start(count)?;
    let stores = Stores::start(Entries::Plain)?;
    let runtime = tokio_runtime::start_with_io()?;
    let look_ups = LookUps {
        keys: runtime.block_on(Keys::connect(&stores.redis()))?,
        devices: Devices::mariadb(&stores.mariadb_url())?,
    };
    let (finish, waiting) = finish::line();
    let countdown = Countdown::new(count, finish);
    let url = bed.url();
    let service = RabbitService::connect(&url, look_ups, countdown);
    let service = Arc::new(runtime.block_on(service)?);
    bed.time(|| {
        runtime.block_on(service.start())?;
        drop(service);
        waiting.wait(count, 0)
    })
}
