//! Freeboard's TCP proxy.

use std::time::Duration;

use anyhow::Result;
use freeboard::{
    System,
    net::poller::{Policy, Poller},
    net::proxy::{Proxy, ProxyOptions},
};

use crate::{
    cpu_time,
    outcome::Outcome,
    proxy::{Bed, THREADS_COUNT},
};

pub fn run(bed: &Bed) -> Result<Outcome> {
    let poller = Poller::new(THREADS_COUNT, Policy::EAGER)?;
    let system = System::builder()
        .workers(THREADS_COUNT)
        .driver(poller.driver())
        .build()?;
    let address = ([127, 0, 0, 1], 0).into();
    let options = ProxyOptions::default();
    let proxy = Proxy::bind(&system, &poller, address, bed.backend(), options)?;
    let outcome = bed.ask_through(proxy.address(), || Ok(cpu_time::used().as_secs_f64()))?;
    proxy.drain(Duration::from_secs(10));
    system.shutdown(Duration::from_secs(10));
    Ok(outcome)
}
