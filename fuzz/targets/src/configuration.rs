//! Configurations: arbitrary text is parsed, or rejected with a list of errors.

use std::path::Path;

use lockwatch::commands::acl;
use lockwatch::commands::check_config::{self, PageTiming, TimingSources};
use lockwatch::config::Config;
use lockwatch_judge::input::Input;
use lockwatch_judge::state::State;
use lockwatch_judge::time::Mono;

use crate::claims::{harmless, harmless_line};

/// Maximum size of all messages about one text, in bytes.
const TOLD_BYTES_MAX: usize = 256 << 10;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(text, Path::new("/etc/lockwatch/lockwatch.yml")) {
        Ok(config) => check_config(&config),
        Err(errors) => {
            let told = errors.to_string();
            assert!(!errors.mistakes().is_empty(), "refused, and nobody knows why");
            assert!(
                told.len() <= TOLD_BYTES_MAX,
                "{} bytes are said about {}",
                told.len(),
                text.len()
            );
            harmless(&told);
        }
    }
}

fn check_config(config: &Config) {
    assert!(
        !config.tasks.is_empty() && !config.redises.is_empty(),
        "valid, and nothing is watched"
    );
    let names: Vec<&str> = config.tasks.iter().map(|task| &*task.name).collect();
    assert!(
        names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1),
        "a name twice"
    );
    for task in &config.tasks {
        assert!(
            config.redises.get(usize::from(task.store.0)).is_some(),
            "a redis that there is not"
        );
        harmless_line(&task.name.escape_debug().to_string());
    }
    let timing = PageTiming::find(&TimingSources::default(), &[]).unwrap();
    harmless(&check_config::report(config, &timing));
    check_config::warnings(config).iter().for_each(|warning| harmless(warning));
    for version in ["6", "6.2", "7.0", "7.2"] {
        harmless(&acl::report(config, version.parse().unwrap()));
    }
    let mut state = State::new();
    state.step(Mono::at(0), Input::Config(config.watch_spec(0).into()));
    state.step(Mono::at(1_000_000), Input::Tick);
    assert_eq!(
        state.snapshot(Mono::at(1_000_001)).tasks.len(),
        config.tasks.len(),
        "a task went missing"
    );
}
