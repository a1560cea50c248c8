//! The program: see `lockwatch --help`.

fn main() {}
