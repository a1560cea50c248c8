//! Parses the logs of a run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use super::spans::Spans;
use crate::campaign::clock::Micros;
use crate::campaign::fault::{Kind, Line, Word};
use crate::campaign::header::Header;

/// Everything that is known of a run.
#[derive(Clone, Debug)]
pub(super) struct Logs {
    pub(super) header: Header,
    pub(super) begin: Micros,
    pub(super) end: Micros,
    /// How far the wall clock drifted from the monotonic clock during the run.
    pub(super) wall_drift: Micros,
    /// When the injector, the cables and the users were late.
    pub(super) late: Spans,
    pub(super) faults: Vec<FaultLog>,
    /// In the order of [`Header::servers`].
    pub(super) servers: Vec<ServerLog>,
    /// By Redis: the server named by the majority of the Sentinels (an index into its servers), at
    /// each poll.
    pub(super) named: BTreeMap<usize, Vec<(Micros, Option<usize>)>>,
    pub(super) agents: Vec<AgentLog>,
    pub(super) holds: Vec<HostLine>,
    pub(super) switches: Vec<SwitchLine>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FaultLog {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) redis: Option<usize>,
    pub(super) agent: Option<usize>,
    pub(super) target: Option<String>,
    pub(super) meant: Micros,
    pub(super) lasts: Micros,
    pub(super) verified: Option<Micros>,
    /// The end of the run, if the fault was never healed.
    pub(super) healed: Micros,
    pub(super) why_not: Option<String>,
}

/// What the witness saw of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerLog {
    pub(super) redis: usize,
    pub(super) looks: Vec<Look>,
    /// By task: the state from each look on.
    pub(super) locks: BTreeMap<usize, Vec<(usize, LockSeen)>>,
    pub(super) switches: BTreeMap<usize, Vec<(usize, SwitchSeen)>>,
    pub(super) progress: BTreeMap<usize, Vec<(usize, bool)>>,
}

/// One look: the instants of request and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) sent: Micros,
    pub(super) received: Micros,
    pub(super) ok: bool,
    pub(super) master: bool,
    /// Whether switches and progress were read too.
    pub(super) slow: bool,
}

/// The state of a lock on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockSeen {
    pub(super) holder: Option<String>,
    /// On the server's wall clock, in milliseconds; negative if there is none.
    pub(super) deadline_ms: i64,
}

/// The state of a switch on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwitchSeen {
    On,
    Off,
    Absent,
}

/// The instant, whether the value raises an alert (`1`, `0`, or `?` if absent), and the value.
pub(super) type Shown = (Micros, char, String);

/// What an agent reported.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentLog {
    pub(super) scrapes: Vec<Scrape>,
    /// By measure and task: what was shown from each scrape on.
    pub(super) shown: BTreeMap<(char, usize), Vec<Shown>>,
}

/// One successful scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scrape {
    pub(super) sent: Micros,
    pub(super) received: Micros,
    /// How long a thread of the agent waited for a core since the previous scrape.
    pub(super) waited: Micros,
}

/// An action of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostLine {
    pub(super) at: Micros,
    pub(super) task: usize,
    pub(super) worker: String,
    pub(super) event: String,
    pub(super) sent: Micros,
}

/// A write of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SwitchLine {
    pub(super) at: Micros,
    pub(super) task: usize,
    pub(super) on: bool,
    pub(super) sent: Micros,
}

/// Reads the logs in a folder.
pub(super) fn read(folder: &Path) -> anyhow::Result<Logs> {
    let header = Header::read(folder)?;
    let mut logs = Logs {
        begin: header.began_us,
        end: 0,
        wall_drift: 0,
        late: Spans::default(),
        faults: Vec::new(),
        servers: Vec::new(),
        named: BTreeMap::new(),
        agents: Vec::new(),
        holds: Vec::new(),
        switches: Vec::new(),
        header,
    };
    each_line(folder, "lag.log", |words| logs.lag(words))?;
    if logs.end == 0 {
        bail!("{}: the run did not end by itself, so its logs are not whole", folder.display());
    }
    let servers: Vec<(usize, String)> =
        logs.header.servers().map(|(redis, entry)| (redis, entry.name.clone())).collect();
    for (redis, name) in servers {
        let mut server = ServerLog { redis, ..ServerLog::default() };
        each_line(folder, &format!("look-{name}.log"), |words| server.line(words))?;
        logs.servers.push(server);
    }
    for (index, redis) in
        logs.header.redises.iter().enumerate().filter(|(_, redis)| !redis.sentinels.is_empty())
    {
        let mut named = Vec::new();
        each_line(folder, &format!("sentinels-{}.log", redis.name), |words| {
            let [at, name] = words else { bail!("two words are expected") };
            named.push((at.parse()?, redis.servers.iter().position(|server| server.name == *name)));
            Ok(())
        })?;
        logs.named.insert(index, named);
    }
    for index in 0..logs.header.agents {
        let mut agent = AgentLog::default();
        each_line(folder, &format!("agent-{index}.log"), |words| agent.line(words))?;
        logs.agents.push(agent);
    }
    // The last log is that of the real Redisson client.
    for index in 0..=logs.header.hosts {
        each_line(folder, &format!("host-{index}.log"), |words| {
            logs.holds.push(host_line(words)?);
            Ok(())
        })?;
    }
    logs.holds.sort_by_key(|line| line.at);
    each_line(folder, "users.log", |words| {
        let [at, task, on, sent] = words else { bail!("four words are expected") };
        logs.switches.push(SwitchLine {
            at: at.parse()?,
            task: task.parse()?,
            on: *on == "on",
            sent: sent.parse()?,
        });
        Ok(())
    })?;
    logs.faults = faults(folder, logs.end)?;
    Ok(logs)
}

/// Calls `take` with the words of each line. The last line may be truncated, because a process was
/// killed while it wrote.
fn each_line(
    folder: &Path,
    name: &str,
    mut take: impl FnMut(&[&str]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let file = folder.join(name);
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        take(&words).with_context(|| format!("{name}, line {}: {line}", number + 1))?;
    }
    Ok(())
}

fn host_line(words: &[&str]) -> anyhow::Result<HostLine> {
    let [at, task, worker, event, sent] = words else { bail!("five words are expected") };
    Ok(HostLine {
        at: at.parse()?,
        task: task.parse()?,
        worker: (*worker).to_owned(),
        event: (*event).to_owned(),
        sent: sent.parse()?,
    })
}

impl Logs {
    fn lag(&mut self, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["begin", ..] => {}
            ["end", at, ahead] => {
                self.end = at.parse()?;
                self.wall_drift = self.header.wall_ahead_us.abs_diff(ahead.parse()?);
            }
            ["late", from, to] => self.late = self.late.or(&Spans::one(from.parse()?, to.parse()?)),
            _ => bail!("not a line of a lag"),
        }
        Ok(())
    }
}

impl ServerLog {
    fn line(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let look = self.looks.len().saturating_sub(1);
        match words {
            ["c", ..] => {}
            ["-", sent, received, ..] => self.look(sent, received, false, "?", false)?,
            ["+", sent, received, role] => self.look(sent, received, true, role, false)?,
            ["+", sent, received, role, "w"] => self.look(sent, received, true, role, true)?,
            ["l", task, holder, deadline] => {
                let seen = LockSeen {
                    holder: (*holder != "-").then(|| (*holder).to_owned()),
                    deadline_ms: deadline.parse()?,
                };
                self.locks.entry(task.parse()?).or_default().push((look, seen));
            }
            ["w", task, word] => {
                let seen = match *word {
                    "on" => SwitchSeen::On,
                    "off" => SwitchSeen::Off,
                    _ => SwitchSeen::Absent,
                };
                self.switches.entry(task.parse()?).or_default().push((look, seen));
            }
            ["p", task, word] => {
                self.progress.entry(task.parse()?).or_default().push((look, *word != "-"))
            }
            _ => bail!("not a line of a witness"),
        }
        Ok(())
    }

    fn look(
        &mut self,
        sent: &str,
        received: &str,
        ok: bool,
        role: &str,
        slow: bool,
    ) -> anyhow::Result<()> {
        let (sent, received) = (sent.parse()?, received.parse()?);
        self.looks.push(Look { sent, received, ok, master: role == "m", slow });
        Ok(())
    }
}

impl AgentLog {
    fn line(&mut self, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["s", sent, received, waited] => {
                self.scrapes.push(Scrape {
                    sent: sent.parse()?,
                    received: received.parse()?,
                    waited: waited.parse()?,
                });
            }
            ["f", ..] => {}
            [measure, task, shown, value] => {
                let (Some(measure), Some(shown)) = (measure.chars().next(), shown.chars().next())
                else {
                    bail!("an empty word")
                };
                let at = self.scrapes.last().context("a value before the first scrape")?.received;
                self.shown.entry((measure, task.parse()?)).or_default().push((
                    at,
                    shown,
                    (*value).to_owned(),
                ));
            }
            _ => bail!("not a line of a collector"),
        }
        Ok(())
    }

    /// When this was shown of a measure; `end` is the end of the run.
    pub(super) fn when(&self, measure: char, task: usize, shown: char, end: Micros) -> Spans {
        let changes = self.shown.get(&(measure, task)).map(Vec::as_slice).unwrap_or_default();
        let ends = changes.iter().skip(1).map(|(at, ..)| *at).chain([end]);
        Spans::new(
            changes
                .iter()
                .zip(ends)
                .filter(|((_, of, _), _)| *of == shown)
                .map(|((at, ..), to)| (*at, to)),
        )
    }
}

fn faults(folder: &Path, end: Micros) -> anyhow::Result<Vec<FaultLog>> {
    let file = folder.join("faults.log");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut all: BTreeMap<u64, FaultLog> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("faults.log, line {}", number + 1))?;
        if let Word::Meant { kind, redis, agent, target, lasts_ms } = line.word {
            let fault = FaultLog {
                id: line.id,
                kind,
                redis,
                agent,
                target,
                meant: line.at_us,
                lasts: lasts_ms * 1_000,
                verified: None,
                healed: end,
                why_not: None,
            };
            all.insert(line.id, fault);
            continue;
        }
        // A fault that could not be started has no intent in the log.
        let Some(fault) = all.get_mut(&line.id) else { continue };
        match line.word {
            Word::Verified { .. } => fault.verified = Some(line.at_us),
            Word::Unverified { why } => fault.why_not = Some(why),
            Word::Healed => fault.healed = line.at_us,
            Word::Meant { .. } => {}
        }
    }
    Ok(all.into_values().collect())
}
