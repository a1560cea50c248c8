//! stub
use crate::reading::Switch;
use crate::spec::Codec;
use alloc::vec::Vec;
/// stub
pub enum Scalar {
    /// n
    Null,
    /// b
    Bool(bool),
    /// i
    Int(i64),
    /// t
    Text(alloc::string::String),
}
/// stub
pub fn decode(_codec: Codec, bytes: &[u8]) -> Option<Scalar> {
    core::str::from_utf8(bytes).ok().map(|s| Scalar::Text(s.into()))
}
/// stub
pub fn switch(_codec: Codec, bytes: &[u8]) -> Switch {
    match bytes {
        b"on" | b"1" | b"true" | b"yes" => Switch::On,
        b"" | b"0" | b"off" | b"false" => Switch::Off,
        _ => Switch::Undecodable { value: bytes.to_vec(), fits: None },
    }
}
/// stub
pub fn display_text(_codec: Codec, bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}
