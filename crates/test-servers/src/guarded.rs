//! A program in a process group of its own that does not outlive this process.

use std::{
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Becomes the program, and leaves a process behind that kills the group when our end of its input is closed. That
/// also happens when this process is killed.
const SHELL: &str =
    r#"exec 3<&0; (cat <&3; kill -KILL 0) >/dev/null 2>&1 & exec "$@" </dev/null 3<&-"#;

/// A running program. Dropping it kills the program and its children.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    /// `Child::wait` would close it, and so kill the program.
    lifeline: Option<ChildStdin>,
}

impl Guarded {
    /// Starts a program with its arguments, variables and folder. Its standard input is empty.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the program is not on the path; else those of starting a process.
    pub fn spawn(command: &Command, stdout: Stdio, stderr: Stdio) -> io::Result<Self> {
        if !is_on_path(command.get_program()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SHELL, "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        let mut child = shell
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()?;
        let lifeline = child.stdin.take();
        Ok(Self { child, lifeline })
    }

    /// The process, which is also the group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output, if that was piped; once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if that was piped; once.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// Those of the system.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        self.child.try_wait().map(|status| status.is_some())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills it and its children, like `kill -9`.
    pub fn kill(&mut self) {
        // The guard lives as long as the lifeline is open, and keeps the group's number from being reused.
        let Some(_lifeline) = self.lifeline.take() else {
            return;
        };
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // Fails only if somebody else has killed the group.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the shell finds the program.
pub fn is_on_path(program: impl AsRef<Path>) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(&program).is_file())
}
