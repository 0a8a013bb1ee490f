//! One of the processes that share the devices. It says on standard output, a line each, what it keeps.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::RecvTimeoutError,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::{
    System,
    remote::{Node, NodeOptions},
};
use serde::{Deserialize, Serialize};

use super::{
    args::ClusterArgs,
    device::{Devices, options},
};
use crate::{board, interrupt::Interrupt};

/// Between two lines.
const LINE_TIME: Duration = Duration::from_millis(100);
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// Parameters of `freeboard cluster-node`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterNodeArgs {
    /// The NATS server
    #[arg(long, value_name = "URL")]
    url: String,

    /// The name of this process among the others
    #[arg(long, value_name = "NAME")]
    name: String,

    /// The folder of the streams
    #[arg(long, value_name = "PATH")]
    folder: PathBuf,

    #[command(flatten)]
    scene: ClusterArgs,
}

/// A line of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Status {
    /// Partitions, with the epochs in which this process keeps them.
    pub(super) kept: Vec<(u32, String)>,
    pub(super) activations: usize,
    /// Why it can keep none now.
    pub(super) trouble: Option<String>,
}

/// The options of a process of the scene. A process counts as down before its lease ends, so that only the lease decides.
pub(super) fn node_options(url: &str, name: &str, ttl: Duration) -> NodeOptions {
    NodeOptions::new(url)
        .name(name)
        .heartbeat(ttl / 5, ttl * 4 / 5)
}

/// Takes part until SIGTERM.
///
/// # Errors
/// The server cannot be reached, or the name is taken.
pub(crate) fn cluster_node(args: &ClusterNodeArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plan = args.scene.plans()?.remove(0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()?;
    let system = System::builder()
        .name(args.name.clone())
        .workers(1)
        .tokio(runtime.handle().clone())
        .build()?;
    board::watch(&system);
    let node = Node::join(&system, node_options(&args.url, &args.name, plan.ttl))
        .with_context(|| format!("{} cannot join", args.name))?;
    let devices = node.directory(options(&plan), Devices::new(args.folder.clone()))?;
    let (sender, came) = std::sync::mpsc::channel();
    let _listening = interrupt.listen(move || {
        let _ = sender.send(());
    });
    while came.recv_timeout(LINE_TIME) == Err(RecvTimeoutError::Timeout) {
        let kept = devices.partitions().into_iter();
        let status = Status {
            kept: kept.map(|(it, epoch)| (it, epoch.to_string())).collect(),
            activations: devices.activations(),
            trouble: devices.trouble(),
        };
        let mut line = serde_json::to_string(&status)?;
        line.push('\n');
        // Nobody reads on when the scene has ended.
        if io::stdout().write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    node.leave(LEAVE_MAX);
    system.shutdown(LEAVE_MAX);
    Ok(interrupt.exit_code())
}
