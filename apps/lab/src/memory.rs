//! This process's memory and the machine's, as Linux tells them; elsewhere nothing is known.

use std::fs;

/// Forgets the peak so far. Where that is not allowed the peak is the process's.
pub(crate) fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most resident memory since then, in bytes.
pub(crate) fn peak_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Resident memory now, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// What the machine could still give, in bytes.
pub(crate) fn available_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// What the machine has.
pub(crate) fn total_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_kibibytes() {
        let text = "VmPeak:\t   10 kB\nVmHWM:\t    2048 kB\n";
        assert_eq!(field(text, "VmHWM:"), Some(2_097_152));
        assert_eq!(field(text, "VmRSS:"), None);
        assert_eq!(field("VmHWM: x kB", "VmHWM:"), None);
    }
}
