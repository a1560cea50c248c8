//! The layers of the suite, from cheap to expensive, and how a layer is run on the copy.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::catch::{self, Catch};
use super::copy::Copy;
use super::patch::Patch;

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Only the timelines.
    Timelines,
    /// The timelines and the other quick tests of judge and watch: verdicts, replies, evidence.
    JudgeAndWatch,
    /// Random inputs, with invariants of every snapshot.
    Random,
    /// Thousands of virtual hours, if there is a simulator.
    Simulation,
    /// The tests of guard: random worlds, and what a guard does alone.
    Guard,
    /// The program's unit tests.
    Unit,
    /// The integration tests nearest to the sabotage.
    Near,
    /// All integration tests that need no tools of other languages.
    All,
}

/// The result of a layer.
#[derive(Debug)]
pub(super) enum Ran {
    Passed,
    Failed(Catch),
    NotBuilt(String),
}

/// Integration tests that need Maven, npm or a browser, or that concern the project's surroundings:
/// run only for sabotages that they are nearest to.
const FOREIGN: [&str; 7] = [
    "redisson",
    "shedlock",
    "dashboards::",
    "runbooks::",
    "alerts::",
    "alert_examples::",
    "campaign",
];
/// Folders of the program, each with the integration tests about it.
const ROOMS: [(&str, &[&str]); 18] = [
    ("src/text", &["exposition::", "outputs::", "api::", "pages::"]),
    ("src/outputs/", &["exposition::", "outputs::", "api::", "pages::"]),
    ("src/http", &["http::", "api::", "live_feed::", "pages::", "exposition::"]),
    ("src/io", &["watcher::", "acl::", "faults::", "failover::faults", "failover::replicated"]),
    ("src/engine", &["agent::", "faults::lifecycle", "live::"]),
    ("src/config", &["config::", "acl::", "cli::"]),
    ("src/record", &["replay::"]),
    ("src/hold", &["lease::", "demo::", "guard::"]),
    ("src/keeper", &["guard::"]),
    ("src/commands/guard", &["guard::"]),
    ("src/want", &["want::"]),
    ("src/seek", &["guard::", "want::"]),
    ("guard/", &["guard::"]),
    ("src/commands/", &["cli::", "status::", "explain::", "discover::", "replay::"]),
    ("src/commands/agent", &["agent::", "faults::reload", "faults::lifecycle"]),
    ("judge/", &["watcher::", "faults::", "live::", "agent::"]),
    ("watch/", &["watcher::", "faults::", "failover::faults", "failover::replicated"]),
    ("alerts/", &["alerts::", "alert_examples::"]),
];
/// The tests of the architecture are near to every sabotage.
const ALWAYS_NEAR: &str = "architecture::";
const COMPILING_LIMIT: Duration = Duration::from_secs(1_800);

impl Layer {
    /// All layers, from cheap to expensive.
    pub(super) const ALL: [Layer; 8] = [
        Layer::Timelines,
        Layer::JudgeAndWatch,
        Layer::Random,
        Layer::Simulation,
        Layer::Guard,
        Layer::Unit,
        Layer::Near,
        Layer::All,
    ];

    /// The name on the command line and in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Layer::Timelines => "timelines",
            Layer::JudgeAndWatch => "judge+watch",
            Layer::Random => "random",
            Layer::Simulation => "simulation",
            Layer::Guard => "guard",
            Layer::Unit => "unit",
            Layer::Near => "near",
            Layer::All => "all",
        }
    }

    /// The crates that it tests; `None`: all of them, through the program.
    fn crates(self) -> Option<&'static [&'static str]> {
        match self {
            Layer::Timelines | Layer::JudgeAndWatch | Layer::Random | Layer::Simulation => {
                Some(&["judge/", "watch/"])
            }
            Layer::Guard => Some(&["guard/"]),
            Layer::Unit | Layer::Near | Layer::All => None,
        }
    }

    /// Whether its tests depend on the speed of the machine; a failure must then occur twice.
    fn leans_on_time(self) -> bool {
        matches!(self, Layer::Near | Layer::All)
    }

    /// Maximum duration; a check that takes longer hangs, which counts as a failure.
    fn limit(self) -> Duration {
        Duration::from_secs(if self == Layer::All { 1_800 } else { 600 })
    }
}

/// The suite on the copy.
pub(super) struct Suite<'a> {
    copy: &'a Copy,
    layers: Vec<Layer>,
    patches: &'a [Patch],
}

impl<'a> Suite<'a> {
    /// The suite with those of `layers` that exist.
    pub(super) fn new(copy: &'a Copy, layers: Vec<Layer>, patches: &'a [Patch]) -> Suite<'a> {
        let simulated = copy.tree().join("sim/tests/it/simulation.rs").exists();
        let layers =
            layers.into_iter().filter(|layer| *layer != Layer::Simulation || simulated).collect();
        Suite { copy, layers, patches }
    }

    /// The layers that may notice a sabotage: tests of a crate do not cover the program.
    pub(super) fn layers_of(&self, patch: &Patch) -> Vec<Layer> {
        let notices = |layer: &Layer| match layer.crates() {
            Some(crates) => crates.iter().any(|folder| patch.touches_any(folder)),
            None => true,
        };
        self.layers.iter().copied().filter(notices).collect()
    }

    /// The layers that some sabotage will surely need. The last one, unless it is the only one,
    /// is needed only if a sabotage survives the others.
    pub(super) fn layers_of_all(&self) -> Vec<Layer> {
        let needed =
            |layer: &Layer| self.patches.iter().any(|patch| self.layers_of(patch).contains(layer));
        let only_last = self.layers == [Layer::All];
        self.layers
            .iter()
            .copied()
            .filter(|layer| needed(layer) && (only_last || *layer != Layer::All))
            .collect()
    }

    /// Runs a layer with `patch` applied; `None`: without a patch, for all patches.
    pub(super) async fn run(&self, layer: Layer, patch: Option<&Patch>) -> anyhow::Result<Ran> {
        let (what, tests) = self.arguments(layer, patch);
        let log = self.log(layer, patch)?;
        let build = [&["test", "--locked", "--no-run"], strs(&what).as_slice()].concat();
        if !self.cargo(&build, COMPILING_LIMIT, &log).await?.is_some_and(|status| status.success())
        {
            return Ok(Ran::NotBuilt(catch::compiler_errors(&read(&log)?)));
        }
        let run = [
            &["test", "--locked", "--no-fail-fast"],
            strs(&what).as_slice(),
            &["--"],
            &strs(&tests),
        ]
        .concat();
        let caught = self.tested(layer, &run, &log).await?;
        let Some(catch) = caught else { return Ok(Ran::Passed) };
        if !layer.leans_on_time() || catch.checks.is_empty() {
            return Ok(Ran::Failed(catch));
        }
        // On a busy machine a test may fail for other reasons, so a single failure does not count.
        let names: Vec<&str> = catch
            .checks
            .iter()
            .filter_map(|check| check.split_once("::"))
            .map(|(_, name)| name)
            .collect();
        let again = [
            &["test", "--locked", "--no-fail-fast"],
            strs(&what).as_slice(),
            &["--", "--exact"],
            &names,
        ]
        .concat();
        Ok(self.tested(layer, &again, &log).await?.map_or(Ran::Passed, Ran::Failed))
    }

    async fn tested(
        &self,
        layer: Layer,
        arguments: &[&str],
        log: &Path,
    ) -> anyhow::Result<Option<Catch>> {
        let ended = self.cargo(arguments, layer.limit(), log).await?;
        if ended.is_some_and(|status| status.success()) {
            return Ok(None);
        }
        let mut catch = Catch::of(&read(log)?);
        if ended.is_none() {
            catch
                .said
                .insert(0, format!("the tests did not end within {} s", layer.limit().as_secs()));
        }
        Ok(Some(catch))
    }

    /// The arguments for cargo, and those for the test programs.
    fn arguments(&self, layer: Layer, patch: Option<&Patch>) -> (Vec<String>, Vec<String>) {
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let pure = |more: &[&str]| {
            let crates =
                ["judge", "watch", "sim"].map(|name| format!("--package=lockwatch-{name}"));
            [crates.to_vec(), owned(&["--test", "it"]), owned(more)].concat()
        };
        let program = |more: &[&str]| [owned(&["-p", "lockwatch"]), owned(more)].concat();
        match layer {
            Layer::Timelines | Layer::Random | Layer::Simulation => {
                (pure(&[]), vec![format!("{}::", layer.name())])
            }
            Layer::JudgeAndWatch => {
                (pure(&["--lib"]), owned(&["--skip", "random::", "--skip", "simulation::"]))
            }
            Layer::Guard => (owned(&["-p", "lockwatch-guard"]), Vec::new()),
            Layer::Unit => (program(&["--lib"]), Vec::new()),
            Layer::Near => (program(&["--test", "it"]), self.near(patch)),
            Layer::All => (
                program(&["--test", "it"]),
                FOREIGN.iter().flat_map(|name| owned(&["--skip", name])).collect(),
            ),
        }
    }

    /// The integration tests nearest to `patch`, or to any of the patches.
    fn near(&self, patch: Option<&Patch>) -> Vec<String> {
        let patches = patch.map_or(self.patches, std::slice::from_ref);
        let mut near: Vec<String> = patches.iter().flat_map(near_to).collect();
        near.push(ALWAYS_NEAR.to_owned());
        near.sort();
        near.dedup();
        let foreign = FOREIGN.iter().filter(|name| !near.iter().any(|wanted| wanted == *name));
        let skipped: Vec<String> =
            foreign.flat_map(|name| ["--skip".to_owned(), (*name).to_owned()]).collect();
        near.extend(skipped);
        near
    }

    fn log(&self, layer: Layer, patch: Option<&Patch>) -> anyhow::Result<PathBuf> {
        let folder = self.copy.beside("logs");
        std::fs::create_dir_all(&folder)?;
        let name = patch.map_or("baseline", |patch| &patch.name);
        Ok(folder.join(format!("{name}.{}.log", layer.name())))
    }

    /// Runs cargo in the copy, with its output in `log`; `None`: it timed out.
    async fn cargo(
        &self,
        arguments: &[&str],
        limit: Duration,
        log: &Path,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut cargo = tokio::process::Command::new(
            std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        );
        cargo
            .args(arguments)
            .current_dir(self.copy.tree())
            .env("CARGO_TARGET_DIR", self.copy.beside("build"))
            .env("CARGO_TERM_COLOR", "never")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .process_group(0);
        let mut child = cargo.spawn().context("cannot start cargo")?;
        let group = Group(child.id());
        let ended = tokio::time::timeout(limit, child.wait()).await;
        match ended {
            Ok(status) => {
                std::mem::forget(group);
                Ok(Some(status?))
            }
            Err(_) => Ok(None),
        }
    }
}

/// Cargo and the tests that it runs; they are killed when this is dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            let kill = std::process::Command::new("sh")
                .args(["-c", r#"kill -s KILL -- "-$0""#, &id.to_string()])
                .status();
            if let Err(error) = kill {
                eprintln!("cannot stop process group {id}: {error}");
            }
        }
    }
}

fn near_to(patch: &Patch) -> Vec<String> {
    if !patch.near.is_empty() {
        return patch.near.clone();
    }
    let rooms = ROOMS.iter().filter(|(room, _)| patch.touches_any(room));
    rooms.flat_map(|(_, tests)| tests.iter().map(|test| (*test).to_owned())).collect()
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// The output of cargo, which may be invalid UTF-8 because tests may print anything.
fn read(log: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
