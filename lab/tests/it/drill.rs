//! `lockwatch drill` on chains of real programs: right ones, broken ones, and killed ones.

mod broken;
mod chain;
mod killed;
mod right;
