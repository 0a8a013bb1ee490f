//! One run of one peer: a process of its own, with a limit on its time.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::outcome::Outcome;

/// The lines that are quoted of a failed process.
const QUOTED_LINES_MAX: usize = 3;

/// How a process ended.
pub(crate) enum Ending {
    Exited {
        status: ExitStatus,
        output: String,
        complaint: String,
    },
    TimedOut {
        limit: Duration,
    },
    NotStarted(String),
}

impl Ending {
    pub(crate) fn into_outcome(self, peer: &str, work: &str) -> Outcome {
        match self {
            Self::NotStarted(reason) => Outcome::Unavailable(reason),
            Self::TimedOut { limit } => {
                Outcome::Unavailable(format!("not done after {} s", limit.as_secs()))
            }
            Self::Exited { status, output, .. } if status.success() => {
                Outcome::parse(&output, peer, work)
            }
            Self::Exited {
                status, complaint, ..
            } => {
                let lines: Vec<&str> = complaint
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .collect();
                let first = lines.len().saturating_sub(QUOTED_LINES_MAX);
                Outcome::Failed(format!("{status}: {}", lines[first..].join(" / ")))
            }
        }
    }
}

/// Runs the command to its end, or to the limit.
///
/// It waits in a blocking read, which does not disturb the measured process.
pub(crate) fn run(mut command: Command, limit: Duration) -> Ending {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            return Ending::NotStarted(format!("{program} cannot be started: {error}"));
        }
    };
    let complaint = read_in_background(child.stderr.take());
    let (ended, wait_for_end) = mpsc::channel();
    let output = read_in_background(child.stdout.take());
    let reader = thread::spawn(move || {
        let text = output.join().unwrap_or_default();
        // The receiver was dropped if the limit passed first.
        let _ = ended.send(text);
    });
    let received = wait_for_end.recv_timeout(limit);
    let ending = match received {
        Ok(output) => finish(&mut child, output, complaint),
        Err(_) => {
            end(&mut child);
            Ending::TimedOut { limit }
        }
    };
    // The reader reaches the end of the pipe when the process exits.
    let _ = reader.join();
    ending
}

fn finish(child: &mut Child, output: String, complaint: JoinHandle<String>) -> Ending {
    match child.wait() {
        Ok(status) => Ending::Exited {
            status,
            output,
            complaint: complaint.join().unwrap_or_default(),
        },
        Err(error) => Ending::NotStarted(format!("its end cannot be awaited: {error}")),
    }
}

fn end(child: &mut Child) {
    // Both fail only if the process has exited already, which is wanted.
    let _ = child.kill();
    let _ = child.wait();
}

fn read_in_background(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe ends the text; the part before it is still of use.
            let _ = pipe.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit).into_outcome("p", "w")
    }

    #[test]
    fn output_is_read_and_a_failure_quotes_its_complaint() {
        let long = Duration::from_secs(30);
        let line = r#"echo '{"peer":"p","work":"w","count":1,"seconds":2}'"#;
        assert!(matches!(shell(line, long), Outcome::Measured(_)));
        match shell("echo it broke >&2; exit 3", long) {
            Outcome::Failed(reason) => assert_eq!(reason, "exit status: 3: it broke"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_process_that_does_not_end_is_ended_at_the_limit() {
        let outcome = shell("exec sleep 600", Duration::from_millis(50));
        assert!(matches!(outcome, Outcome::Unavailable(_)));
    }

    #[test]
    fn a_program_that_is_not_there_is_unavailable() {
        let ending = run(
            Command::new("no-such-program-anywhere"),
            Duration::from_secs(1),
        );
        assert!(matches!(ending, Ending::NotStarted(_)));
    }
}
