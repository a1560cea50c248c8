//! What lockwatch can be told to do: one file or folder for each command.

pub mod explain;
