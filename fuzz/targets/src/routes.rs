//! The files of Prometheus and Alertmanager that `check-config` reads.
//!
//! The first byte selects the format of the rest.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use lockwatch::chain::config::AlertmanagerConfig;
use lockwatch::commands::check_config::{self, PageTiming, TimingSources};
use lockwatch::config::Config;
use tempfile::TempDir;

use crate::claims::harmless;

const OURS: &str = "redis: {main: {url: 'redis://a'}}\nlabels: [team]\ntasks:\n  \
                    - {name: outbound, lock: {key: k}, wanted: always, labels: {team: \
    logistics}}\n";

thread_local! {
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

pub(crate) fn run(data: &[u8]) {
    let [choice, text @ ..] = data else { return };
    let path = write(text);
    let sources = match choice & 1 {
        0 => TimingSources { alertmanager_config: Some(path), ..TimingSources::default() },
        _ => TimingSources { prometheus_config: Some(path), ..TimingSources::default() },
    };
    match PageTiming::find(&sources, &[]) {
        Ok(timing) => {
            let config = Config::parse(OURS, Path::new("ours.yml")).unwrap();
            harmless(&check_config::report(&config, &timing));
        }
        Err(told) => harmless(&told),
    }
    let value = std::str::from_utf8(text).ok().and_then(|text| serde_yaml::from_str(text).ok());
    if let Some(Ok(read)) = value.map(|value| AlertmanagerConfig::read(&value)) {
        for rule in &read.inhibit_rules {
            let alert = |name: &str| if name == "a" { "x" } else { "" };
            assert!(!rule.mutes(alert, alert), "an alert never mutes itself");
        }
    }
}

/// Writes the text to a file, the same one in each run.
fn write(text: &[u8]) -> PathBuf {
    FOLDER.with_borrow_mut(|folder| {
        let path = folder.get_or_insert_with(|| TempDir::new().unwrap()).path().join("file.yml");
        fs::write(&path, text).unwrap();
        path
    })
}
