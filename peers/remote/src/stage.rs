//! The measurement of one work: starts the processes, and reads what they and the kernel say.

use std::{
    env,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    beam,
    broker::BrokerProcess,
    peer::Peer,
    process::{Process, Usage, forget_peak},
    work::{Scale, Work},
};

/// Between two reports of the receiver.
const REPORT_INTERVAL: Duration = Duration::from_millis(5);
/// If nothing was handled for so long, the rest is lost.
const SILENCE_MAX: Duration = Duration::from_secs(2);
const MIB: f64 = 1_048_576.0;

struct Stage {
    broker: Option<BrokerProcess>,
    receiver: Process,
    sender: Process,
}

pub fn measure(peer: Peer, work: Work, scale: Scale, modules: Option<&Path>) -> Result<Value> {
    let mut stage = Stage::start(peer, work, scale, modules)?;
    let warm_up_count = stage.handled_count()?;
    for process in stage.processes() {
        forget_peak(process)?;
    }
    let before = stage.usages()?;
    let begun = Instant::now();
    let mut line = stage.sender.ask("go")?;
    let sent_seconds = begun.elapsed().as_secs_f64();
    let (count, seconds) = match work {
        Work::Ask1 | Work::Ask64 => (number(&line, "asked")?, number(&line, "seconds")?),
        Work::Tell => {
            let offered = number(&line, "offered")?;
            let (handled, seconds) = stage.wait_for(begun, |_| Ok(warm_up_count + offered))?;
            let handled = handled - warm_up_count;
            line["lost"] = json!(offered - handled);
            (handled, seconds)
        }
        Work::Overload => {
            let handled = stage.handled_count()? - warm_up_count;
            line["handled_per_s"] = json!(handled / sent_seconds);
            stage.receiver.tell("drain")?;
            let accepted = |stage: &mut Stage| {
                let report = stage.sender.ask("report")?;
                Ok(warm_up_count + number(&report, "accepted")?)
            };
            let (received, _) = stage.wait_for(begun, accepted)?;
            let received = received - warm_up_count;
            let report = stage.sender.ask("report")?;
            let offered = number(&report, "offered")?;
            let [accepted, refused] = [number(&report, "accepted")?, number(&report, "refused")?];
            line["offered_per_s"] = json!(offered / sent_seconds);
            line["refused"] = json!(refused);
            line["refused_share"] = json!(refused / offered);
            line["lost"] = json!(accepted - received);
            line["lost_share"] = json!((accepted - received) / offered);
            line["unknown"] = json!(offered - accepted - refused);
            (received, sent_seconds)
        }
    };
    let after = stage.usages()?;
    ensure!(count > 0.0, "nothing was handled");
    line["peer"] = json!(peer.name());
    line["work"] = json!(work.name());
    line["count"] = json!(count);
    line["seconds"] = json!(seconds);
    line["unit"] = json!("msg");
    line["qps"] = json!(count / seconds);
    let names = ["receiver", "sender", "server"];
    let (mut cpu_seconds, mut grown, mut peak) = (0.0, 0.0, 0.0);
    for ((name, before), after) in names.iter().zip(&before).zip(&after) {
        let used_seconds = after.cpu_seconds - before.cpu_seconds;
        let peak_mib = after.peak_bytes as f64 / MIB;
        line[format!("{name}_cpu_us")] = json!(used_seconds / count * 1e6);
        line[format!("{name}_peak_mib")] = json!(peak_mib);
        cpu_seconds += used_seconds;
        peak += peak_mib;
        grown += after.peak_bytes.saturating_sub(before.resident_bytes) as f64 / MIB;
    }
    line["cpu_us"] = json!(cpu_seconds / count * 1e6);
    line["peak_mib"] = json!(peak);
    line["grown_mib"] = json!(grown);
    Ok(line)
}

impl Stage {
    fn start(peer: Peer, work: Work, scale: Scale, modules: Option<&Path>) -> Result<Self> {
        let broker = peer.broker().map(BrokerProcess::start).transpose()?;
        let server = broker.as_ref().map(BrokerProcess::address);
        let command = |role, at: &str| match peer {
            Peer::Beam => beam::command(role, work, scale, at, server, modules),
            _ => own_command(role, peer, work, scale, at),
        };
        let at = match (peer, server) {
            (Peer::Freeboard | Peer::AsyncNats, Some(server)) => format!("nats://{server}"),
            _ => String::new(),
        };
        let receiver = Process::start("receiver", &mut command("receiver", &at)?)?;
        let ready = receiver.answer()?;
        let address = ready["ready"].as_str().context("the receiver is ready")?;
        let sender = Process::start("sender", &mut command("sender", address)?)?;
        sender.answer()?;
        Ok(Self {
            broker,
            receiver,
            sender,
        })
    }

    /// Receiver, sender, and the server if messages pass it.
    fn processes(&self) -> Vec<u32> {
        let mut processes = vec![self.receiver.id(), self.sender.id()];
        processes.extend(self.broker.as_ref().and_then(BrokerProcess::message_server));
        processes
    }

    fn usages(&self) -> Result<Vec<Usage>> {
        self.processes().into_iter().map(Usage::of).collect()
    }

    fn handled_count(&mut self) -> Result<f64> {
        number(&self.receiver.ask("report")?, "handled")
    }

    /// Waits until as many are handled as `wanted` says, or no further ones. Returns the number, and the seconds until the
    /// last one.
    fn wait_for(
        &mut self,
        begun: Instant,
        mut wanted: impl FnMut(&mut Self) -> Result<f64>,
    ) -> Result<(f64, f64)> {
        let mut last = (self.handled_count()?, Instant::now());
        while last.0 < wanted(self)? && last.1.elapsed() < SILENCE_MAX {
            thread::sleep(REPORT_INTERVAL);
            let handled = self.handled_count()?;
            if handled > last.0 {
                last = (handled, Instant::now());
            }
        }
        Ok((last.0, last.1.duration_since(begun).as_secs_f64()))
    }
}

fn own_command(role: &str, peer: Peer, work: Work, scale: Scale, at: &str) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args([peer.name(), work.name()])
        .args(["--scale", &scale.0.to_string()])
        .args(["--role", role, "--at", at]);
    Ok(command)
}

fn number(line: &Value, name: &str) -> Result<f64> {
    let number = line[name].as_f64();
    number.with_context(|| format!("{line} has no {name}"))
}
