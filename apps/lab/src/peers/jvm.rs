//! The LMAX Disruptor: `javac` compiles the programs of `peers/jvm`, `java` runs them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::{Program, is_on_path};
use crate::interrupt::Interrupt;

const SOURCES: [(&str, &str); 2] = [
    (
        "Peers.java",
        include_str!("../../peers/jvm/src/main/java/Peers.java"),
    ),
    (
        "Round.java",
        include_str!("../../peers/jvm/src/main/java/Round.java"),
    ),
];
/// Where Maven and Debian put the jar: below the home folder, and from the root.
const OF_MAVEN: &str = ".m2/repository/com/lmax/disruptor";
const OF_DEBIAN: &str = "/usr/share/java/disruptor.jar";
const COORDINATES: &str = "com.lmax:disruptor:4.0.0";
const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// A JVM of this machine, and the compiled programs.
#[derive(Debug)]
pub(crate) struct Disruptor {
    folder: TempDir,
    jar: PathBuf,
}

impl Disruptor {
    /// # Errors
    /// A sentence about why it cannot run.
    pub(super) fn find(interrupt: &Interrupt) -> Result<Self> {
        for program in ["java", "javac"] {
            ensure!(
                is_on_path(program),
                "{program} is not on the path (Debian: default-jdk-headless)"
            );
        }
        let Some(jar) = jar() else {
            bail!(
                "the jar {COORDINATES} is not in the local Maven repository; \
                 `mvn dependency:get -Dartifact={COORDINATES}` brings it"
            );
        };
        let folder = super::folder()?;
        let mut compile = Command::new("javac");
        compile
            .arg("-J-XX:-UsePerfData")
            .arg("-cp")
            .arg(&jar)
            .args(["-d", "."]);
        for (name, text) in SOURCES {
            fs::write(folder.path().join(name), text).context("cannot write a program")?;
            compile.arg(name);
        }
        compile
            .current_dir(&folder)
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVAC_OPTIONS");
        Program::start(&compile)?
            .output(COMPILE_LIMIT, interrupt)
            .context("javac")?;
        Ok(Self { folder, jar })
    }

    /// Runs `Peers.java` and reads its line.
    ///
    /// # Errors
    /// If it was killed at the limit or at Ctrl-C, or failed.
    pub(crate) fn run<T: DeserializeOwned>(
        &self,
        arguments: &[&str],
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<T> {
        let classes =
            env::join_paths([Path::new("."), &self.jar]).context("the path of its classes")?;
        let mut command = Command::new("java");
        // These data would be a file that stays when the program is killed.
        command
            .arg("-XX:-UsePerfData")
            .arg("-cp")
            .arg(classes)
            .arg("Peers")
            .args(arguments);
        command
            .current_dir(&self.folder)
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVA_OPTIONS");
        let text = Program::start(&command)?.output(limit, interrupt)?;
        serde_json::from_str(&text).with_context(|| super::printed(&text))
    }
}

/// The newest of the local Maven repository, else Debian's.
fn jar() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let versions = home.and_then(|home| fs::read_dir(home.join(OF_MAVEN)).ok());
    let jars = versions
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name();
            let jar = entry
                .path()
                .join(format!("disruptor-{}.jar", version.to_str()?));
            jar.is_file().then_some(jar)
        });
    let of_debian = Some(PathBuf::from(OF_DEBIAN)).filter(|jar| jar.is_file());
    jars.max().or(of_debian)
}
