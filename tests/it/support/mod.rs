//! The real parts that tests run against.

pub(crate) mod redisson;
