//! axe-core, which finds accessibility problems in a page: for users of screen readers or
//! keyboards, and for those with poor eyesight.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::browser::Browser;

/// Where `scripts/setup test` installs it.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/axe-core/axe.min.js");
/// The tags of the rules that are checked.
const TAGS: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/// Runs axe-core in the page and returns its findings.
const RUN: &str = "const [tags, done] = arguments; \
    axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']}) \
        .then(found => done({violations: found.violations}), error => done({error: \
    String(error)}))";

/// axe-core's program.
#[derive(Clone, Debug)]
pub struct Axe {
    script: String,
}

impl Axe {
    /// Loads the program.
    ///
    /// # Errors
    /// When it is missing; the error says how to install it.
    pub fn load() -> anyhow::Result<Axe> {
        let path = Path::new(SCRIPT);
        let script = std::fs::read_to_string(path);
        Ok(Axe {
            script: script
                .with_context(|| format!("no {}: run scripts/setup test", path.display()))?,
        })
    }

    /// The violations, each with its rule, a description, and its position.
    ///
    /// # Errors
    /// When axe-core cannot be run.
    pub async fn violations(&self, browser: &Browser) -> anyhow::Result<Vec<String>> {
        if browser.value("typeof axe === 'undefined'").await? == Value::Bool(true) {
            browser.run(&self.script, &[]).await?;
        }
        let found = browser.run_async(RUN, &[json!(TAGS)]).await?;
        let Some(violations) = found.get("violations").and_then(Value::as_array) else {
            bail!("axe-core failed: {found}")
        };
        Ok(violations.iter().map(sentence).collect())
    }
}

fn sentence(violation: &Value) -> String {
    let part =
        |object: &Value, name: &str| object.get(name).map(Value::to_string).unwrap_or_default();
    let places = violation.get("nodes").and_then(Value::as_array).into_iter().flatten();
    let places: Vec<String> = places
        .take(5)
        .map(|node| format!("{} ({})", part(node, "html"), part(node, "failureSummary")))
        .collect();
    format!("{}: {}: {}", part(violation, "id"), part(violation, "help"), places.join("; "))
}
