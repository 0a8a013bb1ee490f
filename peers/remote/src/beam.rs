//! The BEAM: two nodes, each an `erl` that runs `peers/beam/remote.erl`.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::work::{OFFERED_PER_SECOND, Scale, TICK, WORK_TIME, Work};

/// Schedulers, and those online: as many as the workers of every other peer.
const SCHEDULERS: &str = "2:2";

pub fn command(
    role: &str,
    work: Work,
    scale: Scale,
    at: &str,
    epmd: Option<SocketAddr>,
    modules: Option<&Path>,
) -> Result<Command> {
    let modules = modules.context("--modules names the compiled modules")?;
    let port = epmd.context("nodes need a directory")?.port().to_string();
    let batch = (OFFERED_PER_SECOND as f64 * TICK.as_secs_f64()) as u64;
    let mut command = Command::new("erl");
    command
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_EPMD_PORT", port)
        .args(["-noshell", "+S", SCHEDULERS, "-start_epmd", "false"])
        .args(["-name", &format!("{role}@127.0.0.1")])
        .args(["-setcookie", "peers"])
        .args(["-kernel", "inet_dist_use_interface", "{127,0,0,1}"])
        .arg("-pa")
        .arg(modules)
        .args(["-s", "remote", "main", "-extra", role, &work.name(), at])
        .args(
            [
                work.bytes(),
                work.outstanding().unwrap_or(0),
                work.time(scale).as_millis() as usize,
                WORK_TIME.as_nanos() as usize,
                batch as usize,
                TICK.as_millis() as usize,
            ]
            .map(|it| it.to_string()),
        );
    Ok(command)
}
