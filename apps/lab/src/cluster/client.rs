//! The client: a process that keeps no devices. Each report is due at its own time, whether or not answers come.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use freeboard::{
    flow::random,
    remote::{RemoteAskError, RemoteDirectory},
};
use tokio::sync::Semaphore;

use super::{
    args::Plan,
    device::{Device, Report},
};
use crate::{console::Console, interrupt::Interrupt};

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
    let permits = Arc::new(Semaphore::new(REGISTERING));
    let answered = Arc::new(Mutex::new(Vec::new()));
    let failed = Arc::new(Mutex::new(None));
    console.start_bar("devices", u64::from(plan.devices));
    for device in 0..plan.devices {
        let permit = permits.clone().acquire_owned().await?;
        if interrupt.has_come() || failed.lock().is_ok_and(|it| it.is_some()) {
            break;
        }
        console.move_bar(u64::from(device), String::new());
        let (directory, answered, failed) = (directory.clone(), answered.clone(), failed.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let mut outcome = Err(RemoteAskError::Expired);
            for attempt in 0..ATTEMPTS {
                // Numbers of attempts that may have been written are not used again.
                let number = u64::from(device) << 32 | u64::from(attempt);
                let report = Report { number };
                outcome = directory.ask(&device, report).timeout(ATTEMPT_TIME).await;
                if outcome.is_ok() {
                    push(&answered, number);
                    return;
                }
                tokio::time::sleep(ATTEMPT_TIME / ATTEMPTS).await;
            }
            if let (Err(error), Ok(mut failed)) = (outcome, failed.lock()) {
                *failed = Some(format!("device {device} does not answer: {error}"));
            }
        });
    }
    let all = u32::try_from(REGISTERING).unwrap_or(u32::MAX);
    drop(permits.acquire_many(all).await?);
    console.end_bars();
    if let Some(why) = failed.lock().ok().and_then(|mut it| it.take()) {
        bail!(why);
    }
    Ok(take(&answered))
}

fn push<T>(to: &Mutex<Vec<T>>, item: T) {
    to.lock().unwrap_or_else(PoisonError::into_inner).push(item);
}

fn take<T>(from: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *from.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sends reports of random devices from `begin` on, and returns how each ended.
pub(super) async fn load(
    directory: &Directory,
    plan: &Plan,
    begin: Instant,
    stop: &AtomicBool,
) -> Vec<Asked> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    let (mut turn, mut due) = (0, Duration::ZERO);
    loop {
        turn += 1;
        // A Poisson process: the gap is exponential.
        let share = ((random::number(plan.seed, 2 * turn) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        due += Duration::from_secs_f64(-share.ln() / f64::from(plan.rate));
        // Ordering: Relaxed, a flag.
        if due >= plan.time() || stop.load(Ordering::Relaxed) {
            break;
        }
        tokio::time::sleep_until((begin + due).into()).await;
        let device = random::below(
            random::number(plan.seed, 2 * turn + 1),
            plan.devices as usize,
        );
        // Above those of the devices' registration.
        let number = u64::MAX / 2 + turn;
        let (directory, all, device) = (directory.clone(), all.clone(), device as u32);
        let left = (due + plan.deadline).saturating_sub(begin.elapsed());
        let deadline = plan.deadline;
        tasks.spawn(async move {
            let outcome = directory
                .ask(&device, Report { number })
                .timeout(left)
                .await;
            let ended = begin.elapsed();
            let error = match &outcome {
                Ok(_) if ended <= due + deadline => None,
                Ok(_) => Some("late"),
                Err(error) => Some(name_of(error)),
            };
            let asked = Asked {
                due,
                ended,
                error,
                number,
            };
            push(&all, asked);
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    let mut all = take(&all);
    all.sort_unstable_by_key(|it| it.due);
    all
}
