//! Any bytes as a file of settings, and as the value of a flag.
//!
//! ```text
//! cargo xtask fuzz --only settings
//! ```

#![no_main]

use std::{net::SocketAddr, path::Path, str};

use freeboard_logd::{
    Period, Policy, StdoutForm,
    settings::{Settings, Size, Time, Zone, value},
};
use libfuzzer_sys::fuzz_target;

/// Whether an address in here is the name of a host, for which the system would be asked.
fn names_host(value: &toml::Value) -> bool {
    match value {
        toml::Value::String(text) => text.contains(':') && text.parse::<SocketAddr>().is_err(),
        toml::Value::Array(values) => values.iter().any(names_host),
        toml::Value::Table(table) => table.iter().any(|(key, value)| {
            let is_address = ["address", "status"].contains(&key.as_str());
            (is_address || !value.is_str()) && names_host(value)
        }),
        _ => false,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let _ = value::<Size>(text);
    let _ = value::<Time>(text);
    let _ = value::<Zone>(text);
    let _ = value::<Period>(text);
    let _ = value::<StdoutForm>(text);
    if let Ok(policy) = text.parse::<Policy>() {
        assert_eq!(policy.to_string().parse().ok(), Some(policy));
    }
    if toml::from_str(text).is_ok_and(|table| names_host(&toml::Value::Table(table))) {
        return;
    }
    if let Err(error) = Settings::parse(text, Path::new("logd.toml")) {
        assert!(!error.to_string().is_empty());
    }
});
