//! The root and the packages of the workspace, as cargo reports them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The workspace's root folder.
///
/// Cargo sets this package's folder in the environment; a binary that was started by hand searches from the
/// current folder upwards.
pub(crate) fn root() -> Result<PathBuf> {
    if let Some(manifest_folder) = env::var_os("CARGO_MANIFEST_DIR") {
        let folder = PathBuf::from(manifest_folder);
        if let Some(root) = folder.parent().filter(|parent| is_root(parent)) {
            return Ok(root.to_path_buf());
        }
    }
    let current = env::current_dir().context("the current folder cannot be read")?;
    match current.ancestors().find(|folder| is_root(folder)) {
        Some(root) => Ok(root.to_path_buf()),
        None => bail!(
            "no Freeboard workspace at or above {}: run `cargo xtask` inside the repository",
            current.display()
        ),
    }
}

fn is_root(folder: &Path) -> bool {
    folder.join("xtask/Cargo.toml").is_file() && folder.join("Cargo.toml").is_file()
}

/// One package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) features: Vec<String>,
}

/// A dependency as the manifest declares it.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
}

/// The kind of a dependency. Only development dependencies may break the floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    Normal,
    Build,
    Development,
}

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new(""))
    }

    /// Whether the package has this file.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.folder().join(path).is_file()
    }

    pub(crate) fn depends_on(&self, name: &str) -> bool {
        self.dependencies
            .iter()
            .any(|dependency| dependency.name == name)
    }
}

/// Every package of the workspace at `root`.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("`cargo metadata` cannot be started")?;
    ensure!(
        output.status.success(),
        "`cargo metadata` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
    parse_packages(&metadata)
}

fn parse_packages(metadata: &Value) -> Result<Vec<Package>> {
    let packages = metadata["packages"]
        .as_array()
        .context("`cargo metadata` lists no packages")?;
    packages.iter().map(parse_package).collect()
}

fn parse_package(package: &Value) -> Result<Package> {
    let name = package["name"].as_str().context("a package has no name")?;
    let manifest = package["manifest_path"]
        .as_str()
        .with_context(|| format!("package {name} has no manifest path"))?;
    let dependencies = package["dependencies"]
        .as_array()
        .with_context(|| format!("package {name} has no dependency list"))?;
    let features = package["features"].as_object();
    Ok(Package {
        name: name.to_owned(),
        manifest: PathBuf::from(manifest),
        dependencies: dependencies.iter().filter_map(parse_dependency).collect(),
        features: features.map_or_else(Vec::new, |it| it.keys().cloned().collect()),
    })
}

fn parse_dependency(dependency: &Value) -> Option<Dependency> {
    let kind = match dependency["kind"].as_str() {
        Some("dev") => DependencyKind::Development,
        Some("build") => DependencyKind::Build,
        _ => DependencyKind::Normal,
    };
    Some(Dependency {
        name: dependency["name"].as_str()?.to_owned(),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_names_and_kinds_of_dependencies() {
        let metadata = json!({"packages": [{
            "name": "freeboard-sched",
            "manifest_path": "/w/crates/sched/Cargo.toml",
            "dependencies": [
                {"name": "freeboard-queue", "kind": null},
                {"name": "loom", "kind": "dev"},
                {"name": "cc", "kind": "build"},
            ],
        }]});
        let packages = parse_packages(&metadata).unwrap();
        let kinds: Vec<_> = packages[0].dependencies.iter().map(|d| d.kind).collect();
        assert_eq!(packages[0].folder(), Path::new("/w/crates/sched"));
        assert_eq!(
            kinds,
            [
                DependencyKind::Normal,
                DependencyKind::Development,
                DependencyKind::Build
            ]
        );
        assert!(packages[0].depends_on("loom"));
    }

    #[test]
    fn output_without_packages_is_an_error() {
        assert!(parse_packages(&json!({})).is_err());
    }
}
