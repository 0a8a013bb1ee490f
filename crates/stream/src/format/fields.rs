//! Little-endian fields at fixed offsets.

/// The `N` bytes at `offset`.
#[inline]
pub(super) fn get<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
}

#[inline]
pub(super) fn get_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(get(bytes, offset))
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
