//! The machine that the figures are of, as far as it tells.

use std::fs;

use serde::Serialize;

use crate::{
    figures::{counted, mebibytes},
    file_system::FileSystem,
    memory, processor,
    table::unseen,
};

/// What there is to know of it.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// That this process may use.
    cores: usize,
    cpu: Option<String>,
    memory_bytes: Option<u64>,
    os: String,
    kernel: Option<String>,
    /// What temporary files are on, and scenes write to.
    temporary_files: Option<String>,
}

impl Machine {
    /// Asks the system.
    pub(super) fn look() -> Self {
        let text = |path: &str| fs::read_to_string(path).ok();
        let os = text("/etc/os-release").and_then(|text| value(&text, "PRETTY_NAME", '='));
        Self {
            cores: processor::cores(),
            cpu: text("/proc/cpuinfo").and_then(|text| value(&text, "model name", ':')),
            memory_bytes: memory::total_bytes(),
            os: os.unwrap_or_else(|| std::env::consts::OS.to_owned()),
            kernel: text("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            temporary_files: FileSystem::of(&std::env::temp_dir()).map(FileSystem::text),
        }
    }

    /// The machine in a sentence.
    pub(super) fn sentence(&self) -> String {
        let cpu = self.cpu.as_deref().unwrap_or("an unknown processor");
        let memory = self.memory_bytes.map_or_else(unseen, mebibytes);
        let cores = counted(self.cores as u64, "core");
        format!("{cores} of {cpu}, {memory} of memory, {}.", self.os)
    }

    /// For people.
    pub(super) fn entries(&self) -> [(&'static str, String); 6] {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(unseen);
        [
            ("processor", known(&self.cpu)),
            ("cores", self.cores.to_string()),
            ("memory", self.memory_bytes.map_or_else(unseen, mebibytes)),
            ("system", self.os.clone()),
            ("kernel", known(&self.kernel)),
            ("temporary files", known(&self.temporary_files)),
        ]
    }
}

/// The first value of this name, without quotes.
fn value(text: &str, name: &str, separator: char) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = fields.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let text =
            "NAME=x\nPRETTY_NAME=\"An OS 1\"\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: other\n";
        assert_eq!(value(text, "PRETTY_NAME", '=').as_deref(), Some("An OS 1"));
        assert_eq!(
            value(text, "model name", ':').as_deref(),
            Some("A CPU @ 2 GHz")
        );
        assert_eq!(value(text, "bogus", ':'), None);
    }
}
