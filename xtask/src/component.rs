//! Programs of others that tests and measurements need, installed from Debian's packages, or Python's.
//!
//! A component is installed only if it is missing. Debian's packages need root and `apt-get`; packages of Python go into
//! an environment of their own below the user's cache folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A program of others that tests or measurements need.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Component {
    /// Its common name.
    pub(crate) name: &'static str,
    /// The executables that must be found.
    pub(crate) programs: &'static [&'static str],
    /// A call that succeeds only if it is complete; empty if the executables are enough.
    pub(crate) probe: &'static [&'static str],
    /// Its Debian packages, or those of Python.
    pub(crate) packages: &'static [&'static str],
    /// The environment of Python that its packages are installed in; `None` if they are Debian's.
    pub(crate) environment: Option<&'static str>,
    /// A Debian package that is unpacked instead of installed, because it conflicts with another one.
    pub(crate) unpacked: Option<Unpacked>,
    /// The service of systemd that its packages start, which is disabled after they were installed.
    pub(crate) service: Option<&'static str>,
    /// The tests and measurements that need it.
    pub(crate) needed_by: &'static str,
}

/// The BEAM, Erlang's runtime, for the peers of `peers/beam`.
pub(crate) const BEAM: Component = Component {
    name: "BEAM",
    programs: &["erl", "erlc"],
    probe: &[
        "erl",
        "-noshell",
        "-noinput",
        "-eval",
        "halt(case code:which(crypto) of non_existing -> 1; _ -> 0 end).",
    ],
    packages: &["erlang-base", "erlang-crypto"],
    environment: None,
    unpacked: None,
    service: None,
    needed_by: "peers/beam",
};

/// Go, for the peers of `peers/go`.
pub(crate) const GO: Component = Component::new("Go", &["go"], &["golang-go"], "peers/go");

/// A JDK and Maven, for the peers of `peers/jvm`.
pub(crate) const JVM: Component = Component::new(
    "the JVM",
    &["java", "javac", "mvn"],
    &["default-jdk-headless", "maven"],
    "peers/jvm",
);

/// fio measures the disk for comparison with streams.
pub(crate) const FIO: Component =
    Component::new("fio", &["fio"], &["fio"], "`cargo xtask peers streams`");

/// nginx, for comparison with our HTTP server.
pub(crate) const NGINX: Component = Component::new(
    "nginx",
    &["nginx"],
    &["nginx-light"],
    "`cargo xtask peers http`",
);

/// ApacheBench.
pub(crate) const AB: Component = Component::new(
    "ab",
    &["ab"],
    &["apache2-utils"],
    "`cargo xtask peers http`",
);

/// wrk, an HTTP load generator with persistent connections.
pub(crate) const WRK: Component =
    Component::new("wrk", &["wrk"], &["wrk"], "`cargo xtask peers http`");

/// haproxy, for comparison with our TCP proxy.
pub(crate) const HAPROXY: Component = Component::new(
    "haproxy",
    &["haproxy"],
    &["haproxy"],
    "`cargo xtask peers proxy`",
);

/// MariaDB, a backend of the proxy and the fetcher.
pub(crate) const MARIADB: Component = Component::new(
    "MariaDB",
    &["mariadbd", "mariadb-install-db", "my_print_defaults"],
    &["mariadb-server-core", "mariadb-client-core"],
    "the scenes eager and fetch, and `cargo xtask peers proxy` and `fetch`",
);

/// Redis, against which the client is tested.
pub(crate) const REDIS: Component = Component::new(
    "Redis",
    &["redis-server"],
    &["redis-server"],
    "the tests of crates/redis and crates/cache, and `cargo xtask peers redis | fetch`",
)
.with_service("redis-server");

/// redis-benchmark, for comparison with our client.
pub(crate) const REDIS_BENCHMARK: Component = Component::new(
    "redis-benchmark",
    &["redis-benchmark"],
    &["redis-tools"],
    "`cargo xtask peers redis`",
);

/// RabbitMQ, the real broker of the fetcher.
pub(crate) const RABBITMQ: Component = Component::new(
    "RabbitMQ",
    &["rabbitmq-server", "epmd"],
    &["rabbitmq-server"],
    "the tests of apps/fetcher, and `cargo xtask peers fetch`",
)
.with_service("rabbitmq-server");

/// NATS, which carries messages between nodes and takes lines of the log server.
pub(crate) const NATS: Component = Component::new(
    "NATS",
    &["nats-server"],
    &["nats-server"],
    "the tests of crates/remote and `freeboard logd`, and `cargo xtask peers remote`",
)
.with_service("nats-server");

/// A headless browser for the board.
pub(crate) const CHROMIUM: Component = Component::new(
    "Chromium",
    &["chromium", "chromedriver"],
    &["chromium", "chromium-driver"],
    "the browser tests of crates/board and apps/lab, and `cargo xtask screenshots`",
);

/// moto, an S3 server. `freeboard_test_servers::s3` finds it in this environment.
pub(crate) const MOTO: Component = Component {
    name: "moto",
    programs: &["moto_server"],
    probe: &[],
    // Not its extra `server`, which brings simulators of all other services.
    packages: &[
        "moto==5.2.5",
        "flask",
        "flask-cors",
        "py-partiql-parser",
        "PyYAML",
    ],
    environment: Some("freeboard/moto"),
    unpacked: None,
    service: None,
    needed_by: "the tests of archives in crates/stream and apps/lab",
};

/// rsyslog, which forwards to our log server in tests, and is measured beside it.
pub(crate) const RSYSLOG: Component = Component::new(
    "rsyslog",
    &["rsyslogd"],
    &["rsyslog"],
    "the tests of `freeboard logd`, and `cargo xtask peers logd`",
);

/// syslog-ng and its load generator. Debian has one of it and rsyslog installed. `freeboard_test_servers::syslog_ng` finds it
/// in this folder.
pub(crate) const SYSLOG_NG: Component = Component {
    name: "syslog-ng",
    programs: &["syslog-ng", "loggen"],
    probe: &[],
    packages: &[
        "libcap2",
        "libglib2.0-0",
        "libivykis0",
        "libjson-c5",
        "libnet1",
        "libpcre3",
        "libwrap0",
    ],
    environment: None,
    unpacked: Some(Unpacked {
        package: "syslog-ng-core",
        folder: "freeboard/syslog-ng",
        scripts: &[
            (
                "syslog-ng",
                r#"exec "$root/sbin/syslog-ng" --module-path="$(echo "$root"/lib/syslog-ng/[0-9]*)" "$@""#,
            ),
            ("loggen", r#"exec "$root/bin/loggen" "$@""#),
        ],
        variables: r#"export SYSLOGNG_PREFIX="$root" LD_LIBRARY_PATH="$root/lib/syslog-ng""#,
    }),
    service: None,
    needed_by: "the tests of `freeboard logd`, and `cargo xtask peers logd`",
};

/// How a Debian package is used without being installed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Its name; the packages that it depends on are installed.
    package: &'static str,
    /// Below the user's cache folder.
    folder: &'static str,
    /// Scripts that start its programs: name and last line. `$root` is where its `/usr` is.
    scripts: &'static [(&'static str, &'static str)],
    /// The line before.
    variables: &'static str,
}

/// The components of `cargo xtask test`.
pub(crate) const NEEDED_BY_TESTS: &[&Component] = &[
    &BEAM, &CHROMIUM, &MARIADB, &MOTO, &NATS, &RABBITMQ, &REDIS, &RSYSLOG, &SYSLOG_NG,
];

/// Whether a component can be used, and if not, why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Present,
    Installed,
    Missing(String),
}

impl Component {
    const fn new(
        name: &'static str,
        programs: &'static [&'static str],
        packages: &'static [&'static str],
        needed_by: &'static str,
    ) -> Self {
        Self {
            name,
            programs,
            probe: &[],
            packages,
            environment: None,
            unpacked: None,
            service: None,
            needed_by,
        }
    }

    const fn with_service(mut self, name: &'static str) -> Self {
        self.service = Some(name);
        self
    }

    fn is_present(&self) -> bool {
        let mut programs = self.programs.iter();
        programs.all(|program| self.program(program).is_some()) && self.passes_probe()
    }

    /// The full path of one of its programs, on the search path or in its own folder.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        let own = self.programs_folder().map(|it| it.join(name));
        find(name).or(own.filter(|path| is_executable(path)))
    }

    fn passes_probe(&self) -> bool {
        let Some((program, arguments)) = self.probe.split_first() else {
            return true;
        };
        Command::new(program)
            .args(arguments)
            .output()
            .is_ok_and(|output| output.status.success())
    }

    /// Installs the component if it is missing and that is possible.
    pub(crate) fn provide(&self) -> Availability {
        if self.is_present() {
            return Availability::Present;
        }
        let obstacle = obstacle_to_installing().filter(|_| self.environment.is_none());
        if let Some(obstacle) = obstacle {
            return Availability::Missing(format!(
                "{} is not installed and {obstacle}; `apt-get install {}` brings it",
                self.name,
                self.packages.join(" ")
            ));
        }
        let packages = self.packages.join(" ");
        println!("installing {packages} for {}", self.needed_by);
        match self.install() {
            Ok(()) if self.is_present() => Availability::Installed,
            Ok(()) => Availability::Missing(format!(
                "{packages} was installed but does not bring all of {}",
                self.name
            )),
            Err(error) => {
                Availability::Missing(format!("{packages} cannot be installed: {error:#}"))
            }
        }
    }

    /// Installs the component if it is missing.
    ///
    /// # Errors
    /// If it is missing and cannot be installed.
    pub(crate) fn require(&self) -> Result<()> {
        match self.provide() {
            Availability::Missing(reason) => bail!(reason),
            Availability::Present | Availability::Installed => Ok(()),
        }
    }

    /// The folder of its environment.
    fn folder(&self) -> Option<PathBuf> {
        let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(home).unwrap_or_else(env::temp_dir);
        let name = self.unpacked.as_ref().map(|it| it.folder);
        self.environment.or(name).map(|name| cache.join(name))
    }

    /// The folder of its programs, if it has one of its own.
    pub(crate) fn programs_folder(&self) -> Option<PathBuf> {
        self.folder().map(|folder| folder.join("bin"))
    }

    fn install(&self) -> Result<()> {
        if let (Some(folder), Some(_)) = (self.folder(), self.environment) {
            let create = || run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
            if create().is_err() {
                // Debian's Python has no environments without this package.
                apt_get(&[
                    "install",
                    "--yes",
                    "--no-install-recommends",
                    "python3-venv",
                ])?;
                create()?;
            }
            let mut pip = Command::new(folder.join("bin/pip"));
            return run(pip.args(["install", "--quiet"]).args(self.packages));
        }
        // A package that conflicts with an installed one must not replace it.
        let options = ["--yes", "--no-remove", "--no-install-recommends"];
        let mut arguments = vec!["install"];
        arguments.extend(options);
        arguments.extend(self.packages);
        // The package lists of a fresh container are empty or old: refresh them only when needed.
        if apt_get(&arguments).is_err() {
            apt_get(&["update"])?;
            apt_get(&arguments)?;
        }
        if let Some(service) = self.service {
            disable(service)?;
        }
        match (&self.unpacked, self.folder()) {
            (Some(unpacked), Some(folder)) => unpacked.unpack(&folder),
            _ => Ok(()),
        }
    }
}

impl Unpacked {
    fn unpack(&self, folder: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let programs = folder.join("bin");
        fs::create_dir_all(&programs)?;
        let mut download = Command::new("apt-get");
        run(download
            .arg("download")
            .arg(self.package)
            .current_dir(folder))?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|it| it == "deb");
        let mut files = fs::read_dir(folder)?.map_while(|it| Some(it.ok()?.path()));
        let package = files.find(is_package).context("nothing was downloaded")?;
        run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder))?;
        fs::remove_file(package)?;
        let root = folder.join("usr");
        for (name, last) in self.scripts {
            let path = programs.join(name);
            let text = format!(
                "#!/bin/sh\nroot='{}'\n{}\n{last}\n",
                root.display(),
                self.variables
            );
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}

fn obstacle_to_installing() -> Option<&'static str> {
    if find("apt-get").is_none() {
        Some("there is no apt-get on this machine")
    } else if !is_root() {
        Some("only root may install it")
    } else {
        None
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    run(command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Stops a service that Debian's package has started. NATS and RabbitMQ would listen on all addresses.
fn disable(service: &str) -> Result<()> {
    if !Path::new("/run/systemd/system").exists() {
        return Ok(());
    }
    run(Command::new("systemctl").args(["disable", "--now", service]))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?} cannot be started"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The full path of a program on the search path.
fn find(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_every_machine_is_present() {
        let shell = Component {
            name: "shell",
            programs: &["sh"],
            probe: &["sh", "-c", "exit 0"],
            packages: &["dash"],
            environment: None,
            unpacked: None,
            service: None,
            needed_by: "this test",
        };
        assert_eq!(shell.provide(), Availability::Present);
        let broken = Component {
            probe: &["sh", "-c", "exit 1"],
            ..shell
        };
        assert!(!broken.is_present());
    }

    #[test]
    fn an_unknown_program_is_not_found() {
        assert_eq!(find("no-such-program-anywhere"), None);
    }
}
