//! Lists the runbooks, so that the program can show each file of alerts/runbooks as a page.

use std::env::var;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=alerts/runbooks");
    let folder =
        Path::new(&var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("alerts/runbooks");
    let files = fs::read_dir(folder).expect("a folder of runbooks");
    let mut files: Vec<_> = files.map(|file| file.expect("a runbook").path()).collect();
    files.sort();
    let mut list = String::from("&[");
    for file in &files {
        let name = file.file_stem().expect("a file has a name");
        write!(list, "({name:?}, include_str!({file:?})),").expect("a string takes any text");
    }
    list.push(']');
    let out = var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("runbooks.rs"), list).expect("cargo's folder can be written");
}
