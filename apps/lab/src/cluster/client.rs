//! The client: a process that keeps no devices. Each report is due at its own time, whether or not answers come.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use freeboard::{
    flow::random,
    remote::{RemoteAskError, RemoteDirectory},
};
use tokio::task::JoinSet;

use super::{
    args::Plan,
    device::{Device, Report},
};
use crate::{console::Console, goodput::arrivals, interrupt::Interrupt};

pub(super) type Directory = RemoteDirectory<u32, Device>;

/// Reports under way while all devices are activated.
const REGISTERING: usize = 1_024;
/// How often a device is tried to be activated, and for how long each time.
const ATTEMPTS: u32 = 20;
const ATTEMPT_TIME: Duration = Duration::from_secs(5);

/// A report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Since the beginning.
    pub(super) due: Duration,
    /// When its client knew.
    pub(super) ended: Duration,
    /// `None` if it was answered.
    pub(super) error: Option<&'static str>,
    pub(super) number: u64,
}

fn name_of(error: &RemoteAskError) -> &'static str {
    match error {
        RemoteAskError::Full | RemoteAskError::Shed => "full",
        RemoteAskError::Down(_) => "down",
        RemoteAskError::Lost(_) | RemoteAskError::NoReply => "lost",
        RemoteAskError::Expired => "expired",
        RemoteAskError::Stale(_) => "stale",
        _ => "other",
    }
}

/// Sends a report to each device, so that all are active. Returns the answered numbers.
///
/// # Errors
/// A device does not answer.
pub(super) async fn register(
    directory: &Directory,
    plan: &Plan,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Vec<u64>> {
    let mut tasks = JoinSet::new();
    let mut answered = Vec::new();
    console.start_bar("devices", u64::from(plan.devices));
    for device in 0..plan.devices {
        if interrupt.has_come() {
            break;
        }
        if tasks.len() == REGISTERING
            && let Some(number) = tasks.join_next().await
        {
            answered.push(number??);
        }
        console.move_bar(u64::from(device), String::new());
        tasks.spawn(activate(directory.clone(), device));
    }
    while let Some(number) = tasks.join_next().await {
        answered.push(number??);
    }
    Ok(answered)
}

/// The number of the report that a device has answered first.
async fn activate(directory: Directory, device: u32) -> Result<u64> {
    let mut last = RemoteAskError::Expired;
    for attempt in 0..ATTEMPTS {
        // Numbers of attempts that may have been written are not used again.
        let number = u64::from(device) << 32 | u64::from(attempt);
        let ask = directory.ask(&device, Report { number });
        match ask.timeout(ATTEMPT_TIME).await {
            Ok(_) => return Ok(number),
            Err(error) => last = error,
        }
        tokio::time::sleep(ATTEMPT_TIME / ATTEMPTS).await;
    }
    bail!("device {device} does not answer: {last}")
}

/// Sends reports of random devices from `begin` on, and returns how each ended.
///
/// # Errors
/// None that a report could cause.
pub(super) async fn load(
    directory: &Directory,
    plan: &Plan,
    begin: Instant,
    stop: &AtomicBool,
) -> Result<Vec<Asked>> {
    let mut tasks = JoinSet::new();
    let mut all = Vec::new();
    let dues = arrivals(plan.seed, &[(f64::from(plan.rate), plan.time())]);
    for (number, due) in (0..).zip(dues) {
        tokio::time::sleep_until((begin + due).into()).await;
        // Ordering: Relaxed, a flag.
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let any = random::number(plan.seed.wrapping_add(1), number);
        let device = random::below(any, plan.devices as usize) as u32;
        // Above those of the devices' registration.
        let number = u64::MAX / 2 + number;
        let left = (due + plan.deadline).saturating_sub(begin.elapsed());
        let (directory, deadline) = (directory.clone(), due + plan.deadline);
        tasks.spawn(async move {
            let outcome = directory
                .ask(&device, Report { number })
                .timeout(left)
                .await;
            let ended = begin.elapsed();
            let error = match &outcome {
                Ok(_) if ended <= deadline => None,
                Ok(_) => Some("late"),
                Err(error) => Some(name_of(error)),
            };
            Asked {
                due,
                ended,
                error,
                number,
            }
        });
        while let Some(asked) = tasks.try_join_next() {
            all.push(asked?);
        }
    }
    all.extend(tasks.join_all().await);
    all.sort_unstable_by_key(|it| it.due);
    Ok(all)
}
