//! The whole program, broken on purpose: real servers in trouble, hostile bytes, pauses, reloads, a stuck engine. What it
//! shows must stay true, and the tasks that are not concerned must go on.

mod agent;
mod keys;
mod lifecycle;
mod locks;
mod losses;
mod names;
mod network;
mod pauses;
mod reload;
mod servers;
