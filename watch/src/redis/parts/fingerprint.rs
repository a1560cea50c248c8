//! The short form of values that workers write.

use alloc::vec::Vec;

/// Maximum size in bytes of a progress or claim value that is kept unchanged. Longer ones are kept
/// as a fingerprint.
const KEPT_BYTES: usize = 256;

/// A short form of a value that shows whether any of its bytes changed, without keeping a large
/// value. In a document, the change may be anywhere.
pub(super) fn fingerprint(value: &[u8]) -> Vec<u8> {
    if value.len() <= KEPT_BYTES {
        return value.to_vec();
    }
    let mut print = value.get(..KEPT_BYTES).unwrap_or_default().to_vec();
    print.extend_from_slice(alloc::format!("+{}+{:016x}", value.len(), fnv1a(value)).as_bytes());
    print
}

/// 64-bit FNV-1a. Two values of one length that differ in a single byte never have the same hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
