//! What changes on the open pages: the table as it was sent, and the frames that tell its changes.

pub(crate) mod frame;
pub(crate) mod table;
