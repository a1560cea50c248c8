//! `lockwatch acl`: the minimal ACL rule for the agent: the commands that it sends and the keys
//! that it reads. And those for switching tasks, if that has a login, and for guards. In ZooKeeper
//! the rights on each node.

mod guards;
mod nodes;
mod rule;

use std::collections::BTreeSet;
use std::iter;
use std::process::ExitCode;
use std::sync::Arc;

use lockwatch_judge::spec::{StoreIndex, TaskSpec};
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::ask::Keys;
use lockwatch_watch::redis::read::all_asks;
use lockwatch_watch::redis::wake_ups::prefixes;
use lockwatch_watch::redis::{WAKE_UPS_CHANNEL, libraries};

use super::rule::{line, pattern, rule_of_glob};
use super::source::ConfigSource;
use crate::config::{Config, Login, Pattern, RedisConfig, SentinelConfig, Servers};
use crate::text::terminal;
use crate::want::{Source, source};
use clap::Args;
pub use rule::{AclRule, ServerVersion};
use rule::{WIDENED, addresses, opening, user_note, where_to};

/// The suggested user where the configuration names none.
const DEFAULT_USER: &str = "lockwatch";
/// The one for switching tasks.
const DEFAULT_WANT_USER: &str = "lockwatch-want";

const SENTINEL_COMMANDS: [&str; 7] = [
    "auth",
    "client|setname",
    "hello",
    "ping",
    "sentinel|get-master-addr-by-name",
    "sentinel|replicas",
    "subscribe",
];

/// Maximum number of key patterns in a rule. Redis compares the key of every command with one
/// pattern after the other, and the agent reads every key each second. By measurement, 500 patterns
/// cost Redis 0.3 % of a core, 5,000 a quarter of one, and 25,000 more than one core.
const PATTERNS_MAX: usize = 500;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct AclOptions {
    /// For which configuration.
    #[command(flatten)]
    pub source: ConfigSource,
    /// The oldest version among the servers
    #[arg(long = "redis-version", value_name = "VERSION", default_value = "7.0")]
    pub redis_version: ServerVersion,
}

/// Runs the command.
///
/// # Errors
/// What is wrong with the configuration.
pub fn run(options: &AclOptions) -> anyhow::Result<ExitCode> {
    terminal::show(report(&options.source.load()?, options.redis_version))
}

/// The rules of all Redis stores of `config` for servers of `version` or later, sorted by name. The
/// rules for switching tasks and for guards follow the one for the agent, and then comes that for
/// the Sentinels.
pub fn rules(config: &Config, version: ServerVersion) -> Vec<AclRule> {
    let of_redis = |(index, redis): (u16, &RedisConfig)| {
        let sentinels = match &redis.servers {
            Servers::Sentinel(sentinel) if version >= ServerVersion::V6_2 => {
                Some(sentinel_rule(redis, sentinel))
            }
            _ => None,
        };
        let want = redis.want.as_ref();
        let want = want.map(|login| want_rule(config, StoreIndex(index), redis, login, version));
        let guards = guards::rules(config, StoreIndex(index), redis, version);
        let agent = iter::once(agent_rule(config, StoreIndex(index), redis, version));
        agent.chain(want).chain(guards).chain(sentinels)
    };
    (0_u16..).zip(&config.redises).flat_map(of_redis).collect()
}

/// [`rules`] as a text: the notes, which begin with `#`, and then the line of each rule. Then what
/// is needed in each ensemble.
pub fn report(config: &Config, version: ServerVersion) -> String {
    let rules = rules(config, version);
    let texts = rules.iter().map(AclRule::to_string).chain(nodes::report(config));
    texts.collect::<Vec<_>>().join("\n")
}

fn agent_rule(
    config: &Config,
    index: StoreIndex,
    redis: &RedisConfig,
    version: ServerVersion,
) -> AclRule {
    let mut needs = Needs::new(redis, version);
    for (_, task) in config.tasks_on(index) {
        needs.add_task(&task);
    }
    for pattern in config.patterns.iter().filter(|pattern| pattern.store() == index) {
        needs.add_pattern(pattern);
    }
    rule_for(redis, version, &needs)
}

/// The rule for `discover`: that of the agent, and the commands for a scan of all keys. All of them
/// are read-only.
pub fn discovery(redis: &RedisConfig, version: ServerVersion) -> AclRule {
    let mut needs = Needs::new(redis, version);
    for library in libraries::names() {
        let lock = libraries::lock(&[], library);
        needs.add_task(&TaskSpec::new("", StoreIndex(0), lock));
    }
    needs.send(&[
        "dbsize",
        "hlen",
        "hrandfield",
        "hstrlen",
        "pubsub|channels",
        "scan",
        "strlen",
        "type",
        "zcard",
        "zcount",
        "zrange",
        "zscore",
    ]);
    needs.patterns = BTreeSet::from([b"*".to_vec()]);
    rule_for(redis, version, &needs)
}

fn rule_for(redis: &RedisConfig, version: ServerVersion, needs: &Needs) -> AclRule {
    let mut words = opening(&redis.login, DEFAULT_USER, version);
    words.extend(needs.commands.iter().map(|command| format!("+{command}").into_bytes()));
    let read = if version >= ServerVersion::V7_0 { "%R~" } else { "~" };
    words.extend(needs.few_patterns().iter().map(|pattern| [read.as_bytes(), pattern].concat()));
    if redis.wake_ups && version >= ServerVersion::V6_2 {
        words.push(format!("&{WAKE_UPS_CHANNEL}").into_bytes());
    }
    AclRule {
        redis: Arc::clone(&redis.name),
        notes: notes(redis, version, needs),
        line: line(&words),
    }
}

/// The rule for switching tasks: only the keys of switches, one command to write each, and what
/// reads them. No prefixes for many keys: they would open others to writing.
fn want_rule(
    config: &Config,
    index: StoreIndex,
    redis: &RedisConfig,
    login: &Login,
    version: ServerVersion,
) -> AclRule {
    let tasks = config.tasks.iter().filter(|task| task.store == index);
    let sources: Vec<Source> = tasks.filter_map(|task| Some(source(task).ok()?.0)).collect();
    let caps = Caps {
        pexpiretime: false,
        hpexpiretime: false,
        role: RoleCheck::Role,
        info: false,
        sharded: false,
    };
    let mut needs = Needs::nothing(caps);
    needs.send(&["auth", "client|setname", "role"]);
    if redis.db != 0 {
        needs.send(&["select"]);
    }
    for source in &sources {
        needs.send(source.commands(version >= ServerVersion::V7_4));
        for key in source.keys() {
            let pattern = needs.pattern(key);
            needs.patterns.insert(pattern);
        }
    }
    let mut words = opening(login, DEFAULT_WANT_USER, version);
    words.extend(needs.commands.iter().map(|command| format!("+{command}").into_bytes()));
    words.extend(needs.patterns.iter().map(|pattern| [b"~".as_slice(), pattern].concat()));
    let mut notes = vec![format!("for `lockwatch want`, {}", where_to(redis))];
    notes.extend(user_note(login, DEFAULT_WANT_USER, " in the block `want`"));
    let forms: BTreeSet<&str> = sources.iter().map(Source::name).collect();
    if forms.is_empty() {
        notes.push(
            "no task of this redis has switches of single users, so it may write none".into(),
        );
    } else if forms.len() > 1 {
        notes.push(format!(
            "it may send the commands for each form of switches ({}) to the keys of all",
            forms.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    notes.extend(needs.widened.then(|| WIDENED.to_owned()));
    AclRule { redis: Arc::clone(&redis.name), notes, line: line(&words) }
}

/// A Sentinel knows fewer commands than a server, and refuses a rule that names another one.
fn sentinel_rule(redis: &RedisConfig, sentinel: &SentinelConfig) -> AclRule {
    let mut words = opening(&redis.sentinel_login, DEFAULT_USER, ServerVersion::V6_2);
    words.extend(SENTINEL_COMMANDS.map(|command| format!("+{command}").into_bytes()));
    words.push(b"&+switch-master".to_vec());
    let mut notes = vec![format!(
        "Sentinels of redis {:?}: replace PASSWORD, then give this line to redis-cli on each of {}",
        redis.name,
        addresses(&sentinel.nodes)
    )];
    notes.extend(user_note(&redis.sentinel_login, DEFAULT_USER, " in the block `sentinel`"));
    notes.push(
        "+info and +role are not needed; without them the log of refusals names both".to_owned(),
    );
    AclRule { redis: Arc::clone(&redis.name), notes, line: line(&words) }
}

fn notes(redis: &RedisConfig, version: ServerVersion, needs: &Needs) -> Vec<String> {
    let mut notes = vec![where_to(redis)];
    notes.extend(user_note(&redis.login, DEFAULT_USER, ""));
    if matches!(redis.servers, Servers::Sentinel(_)) && version < ServerVersion::V6_2 {
        notes.push(
            "Sentinels before 6.2 know no users: only the password of their `requirepass`, if \
             they have one"
                .to_owned(),
        );
    }
    if version < ServerVersion::V7_0 {
        notes.push(
            "before 7.0 a key cannot be opened for reading only; the commands are all read-only"
                .to_owned(),
        );
    } else if version < ServerVersion::V7_4 {
        notes.push(
            "for Redis 7.4 and Valkey 9 and later use --redis-version 7.4, for other servers from \
             7.2 on 7.2, or the log of refusals names what they have more"
                .to_owned(),
        );
    }
    if needs.many() {
        notes.push(format!(
            "of {} keys these are only the beginnings, so that the user may read others that \
             begin so: Redis compares each \
             key that is asked for with one pattern after the other",
            needs.patterns.len()
        ));
    }
    if needs.widened {
        notes.push(WIDENED.to_owned());
    }
    notes
}

/// The commands that the agent sends to one Redis store, and the patterns of the keys that it reads
/// there.
struct Needs {
    commands: BTreeSet<String>,
    patterns: BTreeSet<Vec<u8>>,
    /// What the servers can do.
    caps: Caps,
    /// Whether a pattern matches more than its key.
    widened: bool,
}

impl Needs {
    fn nothing(caps: Caps) -> Needs {
        Needs { commands: BTreeSet::new(), patterns: BTreeSet::new(), caps, widened: false }
    }

    /// The commands that are needed even without a task: to connect, and to check whether replies
    /// can be trusted.
    fn new(redis: &RedisConfig, version: ServerVersion) -> Needs {
        let in_cluster = matches!(redis.servers, Servers::Cluster(_));
        let sharded = in_cluster && version >= ServerVersion::V7_0;
        let pexpiretime = version >= ServerVersion::V7_0;
        let caps = Caps {
            pexpiretime,
            hpexpiretime: version >= ServerVersion::V7_4,
            role: RoleCheck::Role,
            info: true,
            sharded,
        };
        let mut needs = Needs::nothing(caps);
        needs.send(&[
            "auth",
            "client|setname",
            "echo",
            "hello",
            "info",
            "ping",
            "pttl",
            "role",
            "time",
        ]);
        if redis.wake_ups {
            needs.send(&["client|tracking", "subscribe"]);
        }
        if redis.db != 0 {
            needs.send(&["select"]);
        }
        if version >= ServerVersion::V7_0 {
            needs.send(&["pexpiretime"]);
        }
        if in_cluster {
            needs.send(&["cluster|info", "cluster|slots", "readonly"]);
        }
        if sharded {
            needs.send(&["cluster|shards"]);
        }
        if version >= ServerVersion::V7_2 {
            needs.send(&["client|no-touch", "client|setinfo"]);
        }
        if version >= ServerVersion::V7_4 {
            needs.send(&["hpexpiretime"]);
        }
        needs
    }

    /// What is asked about a task.
    fn add_task(&mut self, task: &TaskSpec) {
        let patterns = self.keys_of(task);
        self.patterns.extend(patterns);
    }

    /// What is asked about the tasks of a pattern, and what finds them.
    fn add_pattern(&mut self, pattern: &Pattern) {
        self.send(&["scan"]);
        let (glob, widened) = rule_of_glob(pattern.glob());
        self.widened |= widened;
        // Redisson puts braces around a lock's name, unless it has some.
        let (plain, braced): (&[u8], &[u8]) = (b"\x01", b"\x01{");
        let has_braces = glob.contains(&b'{');
        for stand_in in [plain, braced].into_iter().skip(usize::from(has_braces)) {
            for keys in self.keys_of(&pattern.task("".into(), stand_in)) {
                let parts: Vec<Vec<u8>> = split(&keys, stand_in).map(<[u8]>::to_vec).collect();
                self.patterns.insert(parts.join(&glob[..]));
            }
        }
    }

    /// The patterns of the keys that are asked for about a task.
    fn keys_of(&mut self, task: &TaskSpec) -> Vec<Vec<u8>> {
        let mut patterns = Vec::new();
        for ask in all_asks(task, self.caps) {
            self.commands.insert(ask.name());
            patterns.push(match &ask.key {
                Keys::None => continue,
                Keys::Second | Keys::Third => self.pattern(ask.key().unwrap_or_default()),
                Keys::Like(parts) => {
                    parts.iter().map(|part| self.pattern(part)).collect::<Vec<_>>().join(&b'*')
                }
            });
        }
        patterns
    }

    fn send(&mut self, commands: &[&str]) {
        self.commands.extend(commands.iter().map(|command| (*command).to_owned()));
    }

    fn many(&self) -> bool {
        self.patterns.len() > PATTERNS_MAX
    }

    /// The patterns; if there are too many, common prefixes of them.
    fn few_patterns(&self) -> BTreeSet<Vec<u8>> {
        if self.many() {
            prefixes(self.patterns.iter().map(Vec::as_slice)).into_iter().map(beginning).collect()
        } else {
            self.patterns.clone()
        }
    }

    fn pattern(&mut self, key: &[u8]) -> Vec<u8> {
        let (pattern, widened) = pattern(key);
        self.widened |= widened;
        pattern
    }
}

/// The parts of `bytes` around each `separator`.
fn split<'a>(bytes: &'a [u8], separator: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(bytes);
    iter::from_fn(move || {
        let left = rest?;
        let at = left.windows(separator.len()).position(|window| window == separator);
        rest = at.and_then(|at| left.get(at + separator.len()..));
        at.map_or(Some(left), |at| left.get(..at))
    })
}

/// The pattern for all keys that begin with `prefix`, itself the start of a pattern. A trailing
/// half escape is removed, because it would escape the `*`.
fn beginning(prefix: &[u8]) -> Vec<u8> {
    let escapes = prefix.iter().rev().take_while(|byte| **byte == b'\\').count();
    let whole = prefix.len() - escapes % 2;
    [prefix.get(..whole).unwrap_or(prefix), b"*"].concat()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lockwatch_watch::redis::wake_ups::PREFIXES_MAX;

    use super::*;

    #[test]
    fn many_keys_are_opened_by_their_beginnings() {
        let rule = |locks: usize| {
            let task = |n| format!("  - {{name: '{n}', lock: {{key: 'ware house:{n}:lock'}}}}\n");
            let tasks = (0..locks).map(task).collect::<String>();
            let text = format!(
                "redis: {{main: {{url: 'redis://127.0.0.1', username: lockwatch}}}}\ntasks:\n\
                 {tasks}"
            );
            let config = Config::parse(&text, Path::new("lockwatch.yml")).unwrap();
            let rule = rules(&config, ServerVersion::V7_4).remove(0);
            (rule.line.matches("%R~").count(), rule)
        };
        // Each lock has its own key, and the keys of its queue, its token and its readers.
        let (patterns, exact) = rule(PATTERNS_MAX / 4);
        assert_eq!((patterns, exact.notes.len()), (PATTERNS_MAX, 2), "{exact}");
        let (patterns, few) = rule(PATTERNS_MAX / 4 + 1);
        assert!(patterns <= PREFIXES_MAX && few.notes.len() == 3, "{few}");
        for pattern in ["", "{", "redisson_lock_queue:{", "redisson_lock_token:{"] {
            assert!(few.line.contains(&format!(" %R~{pattern}ware?house:*")), "{pattern}: {few}");
        }
    }

    #[test]
    fn a_beginning_ends_with_a_star_that_is_one() {
        let patterns: [(&[u8], &[u8]); 5] = [
            (b"", b"*"),
            (b"a", b"a*"),
            (br"a\", b"a*"),
            (br"a\\", br"a\\*"),
            (br"a\*\", br"a\**"),
        ];
        for (prefix, pattern) in patterns {
            assert_eq!(beginning(prefix), pattern);
        }
    }

    #[test]
    fn versions() {
        let version = |text: &str| text.parse::<ServerVersion>();
        assert_eq!(version("7.2.4"), Ok(ServerVersion { major: 7, minor: 2 }));
        assert_eq!(version("8"), Ok(ServerVersion { major: 8, minor: 0 }));
        for wrong in ["", "seven", "7.x", "5.0", "-7", "v7"] {
            assert!(version(wrong).is_err(), "{wrong}");
        }
    }
}
