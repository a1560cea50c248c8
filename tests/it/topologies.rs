//! The topologies that other tests stand on do what those rely on, and Redis does in them what the
//! docs say it does.

mod cluster;
mod redisson;
mod replicas;
mod sentinels;
