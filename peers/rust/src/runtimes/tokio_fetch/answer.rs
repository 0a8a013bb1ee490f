//! What is looked up for a notification.

use anyhow::Result;
use freeboard_fetcher::message::{Notification, Reply};

use super::devices::Devices;
use super::keys::Keys;

/// Where it is looked up.
pub struct LookUps {
    pub keys: Keys,
    pub devices: Devices,
}

impl LookUps {
    /// The reply, with the three look-ups under way at once.
    pub async fn answer(&self, notification: Notification) -> Result<Reply> {
        let user = format!("user:{}", notification.user);
        let app = format!("app:{}", notification.app);
        let (user_key, app_key, device) = tokio::try_join!(
            self.keys.get(&user),
            self.keys.get(&app),
            self.devices.of_user(&notification.user),
        )?;
        Ok(Reply {
            id: notification.id,
            user: notification.user,
            app: notification.app,
            user_key: user_key.to_string(),
            app_key: app_key.to_string(),
            device,
            payload: notification.payload,
            // Not counted here.
            redeliveries: 0,
        })
    }
}
