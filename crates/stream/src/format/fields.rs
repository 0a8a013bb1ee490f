//! Little-endian fields at fixed offsets.

use super::FormatError;

/// The `N` bytes at `offset`.
#[inline]
pub(super) fn get<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
}

#[inline]
pub(super) fn get_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(get(bytes, offset))
}

#[inline]
pub(super) fn get_u64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(get(bytes, offset))
}

#[inline]
pub(super) fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}

/// Puts the checksum of all bytes before it into the last four.
pub(super) fn put_checksum(bytes: &mut [u8]) {
    let at = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..at]);
    put(bytes, at, &checksum.to_le_bytes());
}

/// The version at `offset`, one of `known`, which ends with the newest.
pub(super) fn check_version(
    bytes: &[u8],
    offset: usize,
    known: &[u16],
) -> Result<u16, FormatError> {
    let found = u16::from_le_bytes(get(bytes, offset));
    if known.contains(&found) {
        return Ok(found);
    }
    let newest = known[known.len() - 1];
    Err(FormatError::Version { found, newest })
}
