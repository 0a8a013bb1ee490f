//! The machine and the tools of a run, which its tables name.

use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

use crate::component::{self, Component};

use super::peer::Host;

/// The machine and the versions of the tools.
pub(crate) struct Machine {
    date: String,
    processor: String,
    cores_count: usize,
    kernel: String,
    memory: String,
    compiler: String,
    /// Other hosts of the peers, with their versions.
    hosts: Vec<(&'static str, String)>,
    load: String,
}

impl Machine {
    /// Unavailable values are shown as unknown.
    pub(crate) fn describe(hosts: &[Host]) -> Self {
        Self {
            date: said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            processor: field_of("/proc/cpuinfo", "model name"),
            cores_count: thread::available_parallelism().map_or(0, usize::from),
            kernel: said_by("uname", &["-sr"]),
            memory: gibibytes(&field_of("/proc/meminfo", "MemTotal")),
            compiler: said_by("rustc", &["--version"]),
            hosts: hosts.iter().filter_map(|host| version(*host)).collect(),
            load: fs::read_to_string("/proc/loadavg")
                .map(|text| text.split(' ').take(3).collect::<Vec<_>>().join(" "))
                .unwrap_or_else(|_| unknown()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "- date: {}", self.date)?;
        writeln!(
            formatter,
            "- processor: {}, {} cores",
            self.processor, self.cores_count
        )?;
        writeln!(formatter, "- memory: {}", self.memory)?;
        writeln!(formatter, "- kernel: {}", self.kernel)?;
        writeln!(formatter, "- compiler: {}", self.compiler)?;
        for (name, version) in &self.hosts {
            writeln!(formatter, "- {name}: {version}")?;
        }
        write!(
            formatter,
            "- load before the run (1, 5, 15 minutes): {}",
            self.load
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => unknown(),
    }
}

/// The first field of this name in a file of `name : value` lines.
fn field_of(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(field, _)| field.trim() == name)
        .map_or_else(unknown, |(_, value)| value.trim().to_owned())
}

fn gibibytes(kibibytes: &str) -> String {
    kibibytes
        .trim_end_matches(" kB")
        .parse::<f64>()
        .map_or_else(
            |_| unknown(),
            |value| format!("{:.1} GiB", value / 1024.0 / 1024.0),
        )
}

/// Name and version of a host; the compiler has its own line.
fn version(host: Host) -> Option<(&'static str, String)> {
    match host {
        Host::Rust => None,
        Host::Program(component) => Some((component.name, program_version(component))),
        Host::Beam => Some(("BEAM", format!("OTP {}", otp_version()))),
        Host::Go | Host::GoServer => Some(("Go", said_by("go", &["env", "GOVERSION"]))),
        Host::Jvm => {
            let text = said_by("java", &["--version"]);
            Some(("JVM", text.lines().next().unwrap_or_default().to_owned()))
        }
    }
}

fn program_version(component: &Component) -> String {
    // It may be unpacked and not installed.
    if let Some(program) = component::SYSLOG_NG.program("syslog-ng")
        && *component == component::SYSLOG_NG
    {
        let text = said_by(&program.to_string_lossy(), &["--version"]);
        let line = text.lines().next().unwrap_or_default();
        return line.trim_start_matches("syslog-ng ").to_owned();
    }
    said_by("dpkg-query", &["-Wf${Version}", component.packages[0]])
}

/// The full version, which only a file of the release has.
fn otp_version() -> String {
    let program = "{ok, V} = file:read_file(filename:join([code:root_dir(), \"releases\", \
                   erlang:system_info(otp_release), \"OTP_VERSION\"])), io:put_chars(V), halt().";
    said_by("erl", &["-noshell", "-noinput", "-eval", program])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_unknown() {
        assert_eq!(said_by("no-such-program-anywhere", &[]), "unknown");
        assert_eq!(field_of("/proc/cpuinfo", "no such field"), "unknown");
        assert_eq!(gibibytes("2097152 kB"), "2.0 GiB");
    }
}
