//! The directory in memory.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::{Directory, OnDevices, Report, StoreError};

/// A directory in memory, about 150 bytes per user. It answers on the caller's thread.
///
/// A query sees one state of the table: an insert or [`Directory::provision`] is visible as a whole.
#[derive(Debug, Default)]
pub struct MemoryDirectory {
    /// Devices by user. `None` until the table is created.
    devices: RwLock<Option<HashMap<Box<str>, Box<str>>>>,
}

impl MemoryDirectory {
    /// Sets the device of a user. Creates the table if it is missing.
    pub fn insert(&self, user: &str, device: &str) {
        let mut devices = self.devices.write();
        devices
            .get_or_insert_default()
            .insert(user.into(), device.into());
    }

    fn devices_of(&self, users: &[String]) -> Result<Vec<Option<String>>, StoreError> {
        let devices = self.devices.read();
        let Some(devices) = &*devices else {
            return Err(StoreError::Refused("there is no table".to_owned()));
        };
        let device_of = |user: &String| devices.get(user.as_str()).map(|device| (**device).into());
        Ok(users.iter().map(device_of).collect())
    }
}

impl Directory for MemoryDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        Report::new(on_outcome).tell(self.devices_of(&users));
    }

    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        let devices = self.devices_of(&[user.to_owned()])?;
        Ok(devices.into_iter().next().flatten())
    }

    fn provision(&self, users: u64) -> Result<(), StoreError> {
        let mut devices = self.devices.write();
        let devices = devices.get_or_insert_default();
        for number in 0..users {
            let user = format!("user-{number}").into_boxed_str();
            let device = || format!("device-{number}").into_boxed_str();
            devices.entry(user).or_insert_with(device);
        }
        Ok(())
    }
}
