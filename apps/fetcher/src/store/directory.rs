//! Who has which device.

use super::{error::StoreError, report::OnDevices};

/// The longest name of a user that every directory can hold, in bytes.
pub const USER_BYTES_MAX: usize = 512;

/// Who has which device: the table `devices` of a SQL database, with the columns `user`, the key, and
/// `device`. Names are told apart by their bytes.
pub trait Directory: Send + Sync {
    /// Looks several users up with one question; the answers are in their order. Never blocks: refused with
    /// [`StoreError::Full`] when as many questions as allowed are under way. `on_outcome` is called once, on
    /// any thread: this one, for example, if the question is refused. It must not block.
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices);

    /// Looks one user up, on this thread: blocks until there is an answer.
    ///
    /// # Errors
    /// [`StoreError`].
    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError>;

    /// Makes the table if there is none, and puts the users `user-0`, `user-1` and so on into it, as many as
    /// that, with the devices `device-0`, `device-1` and so on; who is there already stays as he is. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]. It can be tried again, and goes on where it was.
    fn provision(&self, users: u64) -> Result<(), StoreError>;
}
