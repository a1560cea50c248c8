//! The topologies of the test suite work as other tests assume, and Redis behaves in them as the
//! documentation says.

mod cluster;
mod redisson;
mod replicas;
mod sentinels;
