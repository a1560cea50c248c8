//! `discover --zookeeper`: walks through the nodes below some roots, at a limited rate and within
//! bounds, and recognises folders in which clients queue for a lock.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueHint};
use lockwatch_watch::zookeeper::codec::{Answer, Ask};
use lockwatch_watch::zookeeper::join;
use lockwatch_watch::zookeeper::recipes::{self, Recipe};

use super::name::{Names, yaml_text};
use super::print::comment;
use crate::config::{Config, ZooKeeperConfig};
use crate::io::{Nodes, Pace};
use crate::text::identity::escape;
use crate::text::numbers::count;

/// The most nodes that are looked at.
const NODES_MAX: usize = 20_000;
/// So many levels below a root are looked at.
const DEPTH_MAX: usize = 8;
/// The walk takes no longer.
const WALK_MAX: Duration = Duration::from_secs(60);
/// The most nodes that are asked for at once.
const PAGE_MAX: u32 = 200;
/// The most paths of one kind that are listed.
const LISTED_MAX: usize = 20;
/// ZooKeeper's own nodes.
const OWN: &str = "/zookeeper";

/// Where to look in ZooKeeper.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct NodesOptions {
    /// Instead of a Redis: the servers of a ZooKeeper, host:port or several with commas
    #[arg(long, value_name = "SERVERS", conflicts_with = "redis")]
    pub zookeeper: Option<String>,
    /// In ZooKeeper: a folder below which to look; may be repeated
    #[arg(long = "root", value_name = "PATH", requires = "zookeeper", default_value = "/")]
    pub roots: Vec<String>,
    /// File whose first line is `user:password` for that ZooKeeper
    #[arg(
        long = "zookeeper.auth-file",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "zookeeper"
    )]
    pub auth_file: Option<PathBuf>,
}

/// The text to print, and whether it is a configuration, because a lock was found.
pub(super) async fn look(
    options: &NodesOptions,
    per_second: u32,
) -> anyhow::Result<(String, bool)> {
    let ensemble = ensemble(options)?;
    let mut session = open(&ensemble).await?;
    let mut walk = Walk::default();
    let walked = walk.through(&mut session, &options.roots, per_second).await;
    session.close().await;
    walked.map_err(|failure| {
        let remedy = lockwatch_watch::remedy(failure.why);
        anyhow!("{}: {}\n{remedy}", failure.why.name(), failure.detail)
            .context("the look was cut short")
    })?;
    Ok((walk.text(&ensemble, options), !walk.found.is_empty()))
}

/// The ensemble as a configuration would name it, so that the same rules apply.
fn ensemble(options: &NodesOptions) -> anyhow::Result<ZooKeeperConfig> {
    let roots = options.roots.iter().filter(|root| *root != "/");
    let tasks = roots.enumerate().map(|(number, root)| {
        format!("  - {{name: r{number}, lock: {{path: {}}}}}\n", yaml_text(root))
    });
    let tasks = tasks.chain(["  - {name: r, lock: {path: /r}}\n".to_owned()]).collect::<String>();
    let text = format!("{}tasks:\n{tasks}", block(options));
    let config = Config::parse(&text, Path::new("")).map_err(|errors| {
        let messages = errors.mistakes().iter().map(|mistake| {
            let flag = if mistake.field.starts_with("tasks") { "--root" } else { "--zookeeper" };
            format!("{flag} {}", mistake.message)
        });
        anyhow!(messages.collect::<Vec<_>>().join("\n"))
    })?;
    config.zookeepers.into_iter().next().context("no server")
}

/// The block `zookeeper` of the configuration.
fn block(options: &NodesOptions) -> String {
    let servers = options.zookeeper.as_deref().unwrap_or_default().split(',');
    let servers = servers.map(|server| yaml_text(server.trim())).collect::<Vec<_>>().join(", ");
    let auth_file = options.auth_file.as_ref().map(|file| {
        format!(
            ", auth_file: {}",
            yaml_text(
                &std::path::absolute(file).unwrap_or_else(|_| file.clone()).to_string_lossy()
            )
        )
    });
    format!("zookeeper:\n  zk: {{servers: [{servers}]{}}}\n", auth_file.unwrap_or_default())
}

/// A session with the first of the servers that grants one.
async fn open(ensemble: &ZooKeeperConfig) -> anyhow::Result<Nodes> {
    let mut failed = anyhow!("there is no server");
    for at in &ensemble.servers {
        match Nodes::open(ensemble, at).await {
            Ok(session) => return Ok(session),
            Err(failure) => {
                let remedy = lockwatch_watch::remedy(failure.why);
                failed = anyhow!("{}: {}\n{remedy}", failure.why.name(), failure.detail)
                    .context(format!("cannot look into {at}"));
            }
        }
    }
    Err(failed)
}

/// What was seen.
#[derive(Default)]
struct Walk {
    /// Folders in which clients queue.
    found: BTreeMap<String, Found>,
    /// Folders that may be some, and why not.
    doubtful: BTreeMap<String, &'static str>,
    unreadable: Vec<String>,
    missing: Vec<String>,
    /// Nodes whose children were asked for.
    nodes: usize,
    /// Why not all of them were.
    cut: Option<String>,
}

struct Found {
    recipe: &'static dyn Recipe,
    contenders: usize,
    /// The session of the first one.
    session: Option<String>,
}

impl Walk {
    async fn through(
        &mut self,
        session: &mut Nodes,
        roots: &[String],
        per_second: u32,
    ) -> Result<(), crate::io::Failure> {
        let began = Instant::now();
        let mut pace = Pace::new(per_second, PAGE_MAX);
        let mut level: Vec<String> = roots.to_vec();
        for depth in 0.. {
            if level.is_empty() {
                return Ok(());
            }
            if depth > DEPTH_MAX {
                self.cut = Some(format!("more than {DEPTH_MAX} levels below a root"));
                return Ok(());
            }
            let mut next = Vec::new();
            for page in level.chunks(usize::try_from(pace.page()).unwrap_or(1)) {
                pace.wait().await;
                let asked = tokio::time::Instant::now();
                if self.nodes + page.len() > NODES_MAX || began.elapsed() > WALK_MAX {
                    self.cut = Some(format!("after {}", count(self.nodes as u64, "node")));
                    return Ok(());
                }
                self.nodes += page.len();
                let asks: Vec<Ask> = page.iter().cloned().map(Ask::Children).collect();
                let answers = session.ask(&asks).await?;
                for (path, answer) in page.iter().zip(answers) {
                    self.take(session, path, answer, depth == 0, &mut next).await?;
                }
                pace.spent(asked, page.len());
            }
            next.truncate(NODES_MAX);
            level = next;
        }
        Ok(())
    }

    /// Takes in the children of a node, and adds those that are to be looked at.
    async fn take(
        &mut self,
        session: &mut Nodes,
        path: &str,
        answer: Option<Answer>,
        is_root: bool,
        next: &mut Vec<String>,
    ) -> Result<(), crate::io::Failure> {
        let names = match answer {
            Some(Answer::Children(names, _)) => names,
            Some(Answer::NoNode) if is_root => {
                self.missing.push(path.to_owned());
                return Ok(());
            }
            Some(Answer::NoNode) => return Ok(()),
            Some(_) => {
                self.unreadable.push(path.to_owned());
                return Ok(());
            }
            None => {
                self.doubtful.insert(path.to_owned(), "has more children than are read");
                return Ok(());
            }
        };
        let Some(recipe) = recipes::recognise(&names) else {
            let children = names.iter().map(|name| join(path, name));
            next.extend(children.filter(|child| child != OWN));
            return Ok(());
        };
        let queue = recipes::queue(recipe, &names);
        let first = queue.contenders.first().map(|first| Ask::Data(join(path, first)));
        let first = session.ask(first.as_slice()).await?.pop().flatten();
        let owner = match first {
            Some(Answer::Data(_, stat)) => stat.owner,
            Some(Answer::NoAuth) => {
                self.unreadable.push(join(path, queue.contenders.first().unwrap_or(&"")));
                None
            }
            // It has just gone.
            _ => None,
        };
        let is_readable = !matches!(first, Some(Answer::NoAuth));
        match owner {
            None if is_readable => {
                let why = "has numbered children, but the first one ends with no session";
                self.doubtful.insert(path.to_owned(), why);
            }
            owner => {
                let session = owner.map(|owner| format!("0x{:x}", owner.0));
                let contenders = queue.contenders.len();
                self.found.insert(path.to_owned(), Found { recipe, contenders, session });
            }
        }
        Ok(())
    }

    fn text(&self, ensemble: &ZooKeeperConfig, options: &NodesOptions) -> String {
        let mut text = String::new();
        let servers = ensemble.servers.iter().map(ToString::to_string).collect::<Vec<_>>();
        comment(
            &mut text,
            "",
            &format!(
                "Made by lockwatch discover of ZooKeeper at {}: {} below {}.",
                servers.join(", "),
                count(self.nodes as u64, "node"),
                listed(options.roots.iter())
            ),
        );
        let only = "Only what was there could be found: a folder in which nobody queues looks like \
                    any other, and Curator's vanish. Look again when all tasks run.";
        comment(&mut text, "", only);
        match self.found.is_empty() {
            true => comment(&mut text, "", "No lock was found."),
            false => self.tasks(&mut text, options),
        }
        if ensemble.servers.len() == 1 && !self.found.is_empty() {
            comment(&mut text, "", "Add the other servers of the ensemble, if there are more.");
        }
        for (path, why) in self.doubtful.iter().take(LISTED_MAX) {
            comment(&mut text, "", &format!("No task: {} {why}.", escape(path.as_bytes())));
        }
        for (paths, what) in [
            (&self.unreadable, "Not readable (READ is missing there)"),
            (&self.missing, "Not there"),
        ] {
            if !paths.is_empty() {
                comment(&mut text, "", &format!("{what}: {}.", listed(paths.iter())));
            }
        }
        if let Some(cut) = &self.cut {
            let more = format!("The walk ended {cut}: name --root further down for the rest.");
            comment(&mut text, "", &more);
        }
        text
    }

    fn tasks(&self, text: &mut String, options: &NodesOptions) {
        text.push_str(&block(options));
        text.push_str("tasks:\n");
        let mut names = Names::default();
        for (path, found) in &self.found {
            let held = match &found.session {
                Some(session) => format!("session {session} is first"),
                None => "the first one may not be read".to_owned(),
            };
            let contenders = count(found.contenders as u64, "contender");
            comment(text, "  ", &format!("{contenders}, {held}."));
            let name = names.of(path.trim_start_matches('/').replace('/', ":").as_bytes());
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "  - {{name: {}, lock: {{path: {}, library: {}}}}}",
                yaml_text(&name),
                yaml_text(path),
                found.recipe.name()
            );
        }
    }
}

fn listed<'a>(paths: impl ExactSizeIterator<Item = &'a String>) -> String {
    crate::text::identity::list(paths.map(|path| escape(path.as_bytes())), LISTED_MAX)
}
