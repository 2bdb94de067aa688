//! What a client of Redis sends.

/// Reads `bytes` as commands, whole and in pieces: the same ones both ways, or a reason to close.
///
/// # Panics
///
/// If that does not hold.
pub fn resp(bytes: &[u8]) {
    crate::resp::parse::fuzz(bytes);
}
