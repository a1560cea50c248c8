//! `lockwatch replay` with an arbitrary file.
//!
//! The first byte selects the report; the rest is the file.

use std::cell::RefCell;
use std::fs;

use lockwatch::commands::replay::{ReplayOptions, write};
use tempfile::TempDir;

use crate::claims::harmless;

/// Maximum size of the report on one file, in bytes.
const TOLD_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

pub(crate) fn run(data: &[u8]) {
    let [choice, recording @ ..] = data else { return };
    let path = FOLDER.with_borrow_mut(|folder| {
        let path =
            folder.get_or_insert_with(|| TempDir::new().unwrap()).path().join("lockwatch-1.jsonl");
        fs::write(&path, recording).unwrap();
        path
    });
    let set = if choice & 2 == 0 { Vec::new() } else { vec!["outbound.grace=5s".to_owned()] };
    let options = ReplayOptions { files: vec![path], set, json: choice & 1 != 0 };
    let mut told = Vec::new();
    match write(&options, &mut told) {
        Ok(_) => {
            assert!(told.len() <= TOLD_BYTES_MAX, "{} bytes are told", told.len());
            let told = String::from_utf8(told).expect("text");
            harmless(&told);
            if options.json && !told.is_empty() {
                let _runs: serde_json::Value = serde_json::from_str(&told).expect("JSON");
            }
        }
        Err(error) => harmless(&format!("{error:#}")),
    }
}
