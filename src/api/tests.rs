//! docs/openapi.json, from the types.

mod openapi;
pub(super) mod words;
