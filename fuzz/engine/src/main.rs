//! The libFuzzer entry point; runs the target that `LOCKWATCH_FUZZ_TARGET` names.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use lockwatch_fuzz_targets::{TARGETS, Target, target};

static CHOSEN: OnceLock<Target> = OnceLock::new();

/// The target of this process.
fn chosen() -> Target {
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("LOCKWATCH_FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("LOCKWATCH_FUZZ_TARGET is {name:?}; it must be one of: {}", names.join(", "));
            std::process::exit(2);
        })
    })
}

fuzz_target!(
    init: {
        chosen();
    },
    |data: &[u8]| {
        (chosen().run)(data);
    }
);
