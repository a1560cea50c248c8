<<<<<<< HEAD
//! The one integration test binary: each module tests one border of the program with real parts.

mod architecture;
mod acl;
mod config;
mod exposition;
mod snapshots;
=======
//! Everything that is tested from outside, in one binary.

mod redisson;
mod support;
>>>>>>> java
