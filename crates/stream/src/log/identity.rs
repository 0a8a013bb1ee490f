//! What stays the same through a stream's life.

use crate::format::{Algorithm, SealUnit, StreamId, SyncKind};

/// What every header of a stream says alike; only the mode may change from one opening to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) stream: StreamId,
    pub(crate) algorithm: Algorithm,
    pub(crate) unit: SealUnit,
    pub(crate) sync: SyncKind,
}
