//! Sabotages: deliberate mistakes in the project's own code, and which check of the suite catches
//! each. A mistake that no check catches is a hole in the suite.

mod catch;
mod copy;
mod layer;
mod patch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};

use copy::Copy;
use layer::{Layer, Ran, Suite};
pub use patch::Patch;

/// What `sabotage` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct SabotageArgs {
    /// Only these of lab/sabotages, by number or a part of the name; without any, all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Any other patch: a unified diff against the work tree, with or without a head
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    patch: Vec<PathBuf>,
    /// Only these layers of the suite, from cheap to dear: judge+watch, random, simulation,
    /// guard, unit, near, all; or timelines alone
    #[arg(long, value_name = "LAYER,…", value_delimiter = ',')]
    checks: Vec<String>,
    /// Go on after the first layer that catches it, and tell what the others say
    #[arg(long)]
    all_checks: bool,
    /// Only whether the patches still apply
    #[arg(long)]
    dry_run: bool,
    /// Do not see first that the suite holds without any sabotage
    #[arg(long)]
    no_baseline: bool,
    /// A few that the timelines catch, within a minute
    #[arg(long, conflicts_with_all = ["names", "patch", "checks"])]
    short: bool,
    /// Where the copy of the work tree is kept, with what is compiled of it; without it, in
    /// target/sabotage
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// List the sabotages and do nothing
    #[arg(long)]
    list: bool,
}

/// The sabotages of `--short`: each breaks a different rule, and all are caught by the timelines.
const SHORT: [&str; 4] =
    ["no-confirmation", "handover-called-split", "phantom-ends-the-gap", "long-blindness-counts"];

/// The result of one sabotage.
#[derive(Debug)]
struct Outcome<'a> {
    patch: &'a Patch,
    fate: Fate,
    seconds: u64,
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { patch, fate, seconds } = self;
        write!(f, "{}: {fate} ({seconds} s)\n    {}", patch.name, patch.sentence())?;
        let Fate::Caught(catches) = fate else { return Ok(()) };
        for (layer, catch) in catches {
            write!(f, "\n    {}: {}", layer.name(), catch.shown())?;
            for said in catch.said.iter().take(2) {
                write!(f, "\n        {said}")?;
            }
            for rule in catch.rules.iter().take(3) {
                write!(f, "\n        breaks rule {rule}")?;
            }
        }
        Ok(())
    }
}

/// How the suite reacted.
#[derive(Debug)]
enum Fate {
    /// A check failed: the layers with failures, and their messages. The first layer counts.
    Caught(Vec<(Layer, catch::Catch)>),
    /// All checks passed.
    Survived,
    /// The patch applies; nothing else was requested.
    Applies,
    /// The patch does not apply, or the result does not compile.
    Invalid(String),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Caught(_) => f.write_str("caught"),
            Fate::Survived => f.write_str("NOT CAUGHT"),
            Fate::Applies => f.write_str("applies"),
            Fate::Invalid(why) => write!(f, "NO SABOTAGE: {why}"),
        }
    }
}

/// Tries the sabotages; returns whether each was caught.
///
/// # Errors
/// When they cannot be tried, or the suite fails without a sabotage.
pub async fn run(args: SabotageArgs) -> anyhow::Result<bool> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().context("the work tree")?;
    let patches = chosen(&args, &root)?;
    if args.list {
        patches.iter().for_each(|patch| println!("{:32} {}", patch.name, patch.sentence()));
        return Ok(true);
    }
    let folder = args.folder.clone().unwrap_or_else(|| root.join("target/sabotage"));
    let copy = Copy::kept(&root, &folder)?;
    let mut suite = Suite::new(&copy, wanted_layers(&args)?, &patches);
    if !args.no_baseline && !args.dry_run && !args.short {
        copy.restore()?;
        baseline(&suite).await?;
    }
    let mut outcomes = Vec::new();
    for patch in &patches {
        let began = Instant::now();
        let fate = try_one(&args, &copy, &mut suite, patch).await?;
        let outcome = Outcome { patch, fate, seconds: began.elapsed().as_secs() };
        println!("{outcome}");
        outcomes.push(outcome);
    }
    copy.restore()?;
    let good = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.fate, Fate::Caught(_) | Fate::Applies))
        .count();
    println!("{good} of {} {}", outcomes.len(), if args.dry_run { "apply" } else { "caught" });
    Ok(good == outcomes.len())
}

/// All sabotages in lab/sabotages, in order.
///
/// # Errors
/// When one cannot be read or has an invalid head.
pub fn all(root: &Path) -> anyhow::Result<Vec<Patch>> {
    let folder = root.join("lab/sabotages");
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        files
            .extend(path.extension().is_some_and(|extension| extension == "patch").then_some(path));
    }
    files.sort_by_cached_key(|file| (number(file), file.clone()));
    files.iter().map(|file| Patch::with_head(file)).collect()
}

/// The number at the start of a file's name.
fn number(file: &Path) -> u32 {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(name.len());
    name[..end].parse().unwrap_or(u32::MAX)
}

/// Checks that all patches apply to a copy of the work tree.
///
/// # Errors
/// Which patch does not apply, and why.
pub async fn check_applies(root: &Path, patches: &[Patch]) -> anyhow::Result<()> {
    let copy = Copy::apart(root)?;
    for patch in patches {
        copy.restore()?;
        copy.apply(patch).await.with_context(|| patch.name.clone())?;
    }
    copy.restore()
}

fn chosen(args: &SabotageArgs, root: &Path) -> anyhow::Result<Vec<Patch>> {
    if !args.patch.is_empty() {
        return args.patch.iter().map(|file| Patch::read(file)).collect();
    }
    let all = all(root)?;
    let names: Vec<&str> = match args.short {
        true => SHORT.to_vec(),
        false => args.names.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) =
        names.iter().find(|name| !all.iter().any(|patch| patch.name.contains(*name)))
    {
        bail!("there is no sabotage {unknown}: --list shows them; --patch takes any other");
    }
    Ok(all
        .into_iter()
        .filter(|patch| names.is_empty() || names.iter().any(|name| patch.name.contains(name)))
        .collect())
}

fn wanted_layers(args: &SabotageArgs) -> anyhow::Result<Vec<Layer>> {
    if args.short {
        return Ok(vec![Layer::Timelines]);
    }
    if args.checks.is_empty() {
        return Ok(Layer::ALL.to_vec());
    }
    let named = |name: &String| {
        let mut layers = Layer::ALL.into_iter().chain([Layer::Timelines]);
        let layer = layers.find(|layer| layer.name() == name);
        layer.with_context(|| format!("there is no layer {name}: --help names them"))
    };
    let mut layers: Vec<Layer> = args.checks.iter().map(named).collect::<anyhow::Result<_>>()?;
    layers.sort();
    Ok(layers)
}

/// Checks that the suite passes without a sabotage; otherwise its failures prove nothing.
async fn baseline(suite: &Suite<'_>) -> anyhow::Result<()> {
    for layer in suite.layers_of_all() {
        match suite.run(layer, None).await? {
            Ran::Passed => println!("without any sabotage, {} holds", layer.name()),
            Ran::Failed(catch) => {
                bail!("without any sabotage, {} fails: {}", layer.name(), catch.checks.join(", "))
            }
            Ran::NotBuilt(why) => bail!("without any sabotage, it does not compile: {why}"),
        }
    }
    Ok(())
}

async fn try_one(
    args: &SabotageArgs,
    copy: &Copy,
    suite: &mut Suite<'_>,
    patch: &Patch,
) -> anyhow::Result<Fate> {
    copy.restore()?;
    if let Err(error) = copy.apply(patch).await {
        return Ok(Fate::Invalid(format!("{error:#}")));
    }
    if args.dry_run {
        return Ok(Fate::Applies);
    }
    let mut caught = Vec::new();
    for layer in suite.layers_of(patch) {
        match suite.run(layer, Some(patch)).await? {
            Ran::NotBuilt(why) => return Ok(Fate::Invalid(format!("it does not compile: {why}"))),
            Ran::Failed(catch) => caught.push((layer, catch)),
            Ran::Passed => {}
        }
        if !caught.is_empty() && !args.all_checks {
            break;
        }
    }
    Ok(if caught.is_empty() { Fate::Survived } else { Fate::Caught(caught) })
}
