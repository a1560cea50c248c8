//! The greeting: selects the database, and determines what this user may do, in one round trip. The
//! driver logs in before it, because secrets never come here.

use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;

use super::accept::{self, Caps, RoleCheck};
use super::diagnosis::{Identity, refusal, words_of};
use super::driver::Failure;
use super::reply::{Command, Reply, ServerError};
use crate::remedy::is_about_login;

/// One command of the greeting, named by the purpose of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Auth,
    /// Asks who the server is, before a database is selected.
    Hello,
    Select,
    /// Sets the name that `CLIENT LIST` shows and, where the server can, `NO-TOUCH`, so that reads
    /// leave the keys' idle times unchanged.
    Courtesy,
    Role,
    InfoServer,
    InfoReplication,
    Pexpiretime,
    Hpexpiretime,
}

/// What a server reported in its greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// What the server can do and lets this user do.
    pub caps: Caps,
    /// Its version, if it reports one.
    pub version: Option<Arc<str>>,
    /// Its role, if it reports one.
    pub role: Option<Role>,
    /// Of a Sentinel: the names of its masters, if it reports them.
    pub masters: Option<Vec<String>>,
}

/// The greeting as a list of commands.
#[derive(Clone, Debug)]
pub struct Handshake {
    assume_master: bool,
    in_cluster: bool,
    to_sentinel: bool,
    steps: Vec<(Step, Command)>,
}

impl Handshake {
    /// For database `db`. `in_cluster` adds `READONLY`: replicas in a cluster refuse reads without
    /// it.
    pub fn new(db: u32, assume_master: bool, in_cluster: bool) -> Handshake {
        let mut steps = Vec::new();
        if db != 0 {
            steps.push((Step::Hello, Command::new(["HELLO", "2"])));
            steps.push((Step::Select, Command::new(["SELECT", &db.to_string()])));
        }
        steps.extend([
            (Step::Courtesy, Command::new(["CLIENT", "SETNAME", "lockwatch"])),
            (Step::Courtesy, Command::new(["CLIENT", "NO-TOUCH", "ON"])),
            (Step::Role, Command::new(["ROLE"])),
            (Step::InfoServer, Command::new(["INFO", "server"])),
            (Step::InfoReplication, Command::new(["INFO", "replication"])),
            (Step::Pexpiretime, Command::new(["PEXPIRETIME", "lockwatch"])),
            (
                Step::Hpexpiretime,
                Command::new(["HPEXPIRETIME", "lockwatch", "FIELDS", "1", "lockwatch"]),
            ),
        ]);
        if in_cluster {
            steps.push((Step::Courtesy, Command::new(["READONLY"])));
        }
        Handshake { assume_master, in_cluster, to_sentinel: false, steps }
    }

    /// For a Sentinel, which has no database, and no role of a master to report.
    pub fn to_sentinel() -> Handshake {
        Handshake { to_sentinel: true, ..Handshake::new(0, true, false) }
    }

    /// Whether the server is to be part of a cluster.
    pub(super) fn is_in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Only the database, the name and the role: for a user with few rights.
    pub fn brief(db: u32, assume_master: bool) -> Handshake {
        let whole = Handshake::new(db, assume_master, false);
        let is_kept = |step: &Step, command: &Command| match step {
            Step::Hello | Step::Select | Step::Role => true,
            // Setting the name needs no right that any login lacks.
            Step::Courtesy => command.args.iter().any(|word| word == b"SETNAME"),
            _ => false,
        };
        let steps = whole.steps.into_iter().filter(|(step, command)| is_kept(step, command));
        Handshake { steps: steps.collect(), ..whole }
    }

    /// Number of its commands.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// How many of its commands go alone, before the others.
    pub fn alone(&self) -> usize {
        usize::from(self.steps.first().is_some_and(|(step, _)| *step == Step::Hello))
    }

    /// Its commands.
    pub fn commands(&self) -> Vec<Command> {
        self.steps.iter().map(|(_, command)| command.clone()).collect()
    }

    /// Judges the replies received: to the login, if there was one, and to the commands. `ended` is
    /// the reason why there are no more.
    ///
    /// # Errors
    /// Why the connection is useless.
    pub fn judge(
        &self,
        auth: Option<&Reply>,
        replies: &[Reply],
        ended: Option<Failure>,
    ) -> Result<Greeting, Failure> {
        let mut caps = Caps::LEAST;
        let (mut role_known, mut role, mut version) = (false, None, None);
        let steps = self.steps.iter().map(|(step, _)| *step);
        let all = auth.map(|reply| (Step::Auth, reply)).into_iter().chain(steps.zip(replies));
        let identity = self.identity(replies);
        if let Some(failure) = identity.as_ref().and_then(|who| who.refuses(self.to_sentinel)) {
            return Err(failure);
        }
        let mut role_refused = None;
        for (step, reply) in all {
            if let Reply::Error(error) = reply {
                fatal(step, error, auth.is_some()).map_err(|failure| match failure.why {
                    // Most clusters have no other database than 0.
                    Unknown::Cluster if self.in_cluster => {
                        Failure { why: Unknown::Database, ..failure }
                    }
                    _ => failure,
                })?;
                if step == Step::Role {
                    role_refused = Some(words_of(error));
                }
            }
            match (step, reply) {
                (Step::Role, Reply::Array(items)) => {
                    caps.role = RoleCheck::Role;
                    role_known = true;
                    role = items.first().and_then(Reply::as_bytes).and_then(accept::role_named);
                }
                (Step::InfoServer, Reply::Bytes(text)) => {
                    caps.info = true;
                    version = version_of(text);
                }
                (Step::InfoReplication, Reply::Bytes(text)) if !role_known => {
                    if let Some(name) = accept::info_field(text, "role") {
                        caps.role = RoleCheck::Info;
                        role_known = true;
                        role = accept::role_named(name);
                    }
                }
                (Step::Pexpiretime, reply) => caps.pexpiretime = may_ask_pexpiretime(reply),
                (Step::Hpexpiretime, reply) => caps.hpexpiretime = has_hpexpiretime(reply),
                _ => {}
            }
        }
        if let Some(ended) = ended {
            return Err(ended);
        }
        if replies.len() < self.steps.len() {
            return Err(Failure::new(Unknown::Protocol, "the greeting was not answered"));
        }
        if !role_known && !self.assume_master {
            let words =
                role_refused.unwrap_or_else(|| "neither ROLE nor INFO reports the role".into());
            return Err(Failure::new_printable(Unknown::RoleRefused, words));
        }
        caps.sharded = self.in_cluster && caps.pexpiretime;
        let masters = match identity {
            Some(Identity::Sentinel(names)) => names,
            _ => None,
        };
        Ok(Greeting { caps, version: version.map(Into::into), role, masters })
    }

    /// Who the server says it is.
    fn identity(&self, replies: &[Reply]) -> Option<Identity> {
        let of = |step: Step| replies.get(self.steps.iter().position(|(own, _)| *own == step)?);
        if let Some(hello) = of(Step::Hello).filter(|hello| !may_go_on(hello)) {
            return Some(Identity::SharedProxy(program(hello).unwrap_or_default()));
        }
        Identity::of(of(Step::Role), of(Step::InfoServer))
    }
}

/// Whether the rest of the greeting may follow this answer to `HELLO`. A proxy may send the
/// commands of all its clients over one connection, as Envoy does: a `SELECT` through it moves all
/// of them to that database. A server that does not know the command is taken for a server.
pub fn may_go_on(hello: &Reply) -> bool {
    program(hello).is_none_or(|name| !name.to_ascii_lowercase().contains("proxy"))
}

/// The program that an answer to `HELLO` names.
fn program(hello: &Reply) -> Option<String> {
    let mut pairs = hello.as_array()?.as_chunks::<2>().0.iter();
    let [_, name] = pairs.find(|[key, _]| key.as_bytes() == Some(b"server"))?;
    Some(String::from_utf8_lossy(name.as_bytes()?).into_owned())
}

/// Whether a refusal makes the whole connection useless.
fn fatal(step: Step, error: &ServerError, logged_in: bool) -> Result<(), Failure> {
    let why = match (step, refusal(error, logged_in)) {
        (
            _,
            why @ (Unknown::Protected | Unknown::MaxClients | Unknown::Loading | Unknown::Busy),
        ) => why,
        (_, why) if is_about_login(why) => why,
        (Step::Auth, _) => Unknown::Auth,
        (Step::Select, why) => why,
        _ => return Ok(()),
    };
    Err(Failure::new_printable(why, words_of(error)))
}

/// Whether `PEXPIRETIME` exists and this user may use it. A refusal of only the probed *key* means
/// yes.
fn may_ask_pexpiretime(reply: &Reply) -> bool {
    match reply {
        Reply::Int(_) => true,
        Reply::Error(error) => match refusal(error, true) {
            Unknown::NoPermission => !error.detail.windows(7).any(|window| window == b"command"),
            // The server checks the command first, and then which server has the key.
            Unknown::NotMaster | Unknown::Moved | Unknown::ClusterDown => true,
            _ => false,
        },
        _ => false,
    }
}

/// Whether `HPEXPIRETIME` exists. A server looks for a command before it checks rights.
fn has_hpexpiretime(reply: &Reply) -> bool {
    match reply {
        Reply::Array(_) | Reply::Nil => true,
        Reply::Error(error) => matches!(
            refusal(error, true),
            Unknown::NoPermission | Unknown::NotMaster | Unknown::Moved | Unknown::ClusterDown
        ),
        _ => false,
    }
}

/// The version that `INFO server` names: the number, after its name if it is no Redis. Valkey's
/// `redis_version` is only what it is compatible with.
fn version_of(info: &[u8]) -> Option<String> {
    let field = |name| accept::info_field(info, name).and_then(tame);
    match field("valkey_version") {
        Some(version) => Some(alloc::format!("Valkey {version}")),
        None => field("redis_version").map(String::from),
    }
}

/// The version, if it is safe to display.
fn tame(version: &[u8]) -> Option<&str> {
    let version = str::from_utf8(version).ok()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
    (!version.is_empty() && version.len() <= 32 && version.bytes().all(fits)).then_some(version)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const NOPERM: &str = "-NOPERM this user has no permissions to run the 'x' command";
    const NOPERM_KEY: &str =
        "-NOPERM this user has no permissions to access one of the keys used as arguments";

    fn reply(text: &str) -> Reply {
        if let Ok(number) = text.parse() {
            return Reply::Int(number);
        }
        match (text.strip_prefix('-'), text.strip_prefix('*')) {
            (Some(error), _) => {
                let (code, detail) = error.split_once(' ').unwrap_or((error, ""));
                Reply::Error(ServerError { code: code.into(), detail: detail.into() })
            }
            (_, Some(item)) => Reply::Array(vec![Reply::Bytes(item.into())]),
            _ => Reply::Bytes(text.into()),
        }
    }

    /// Replies to SETNAME, NO-TOUCH, ROLE, INFO server, INFO replication, PEXPIRETIME. The last
    /// one, HPEXPIRETIME, is not known.
    fn judge(replies: [&str; 6], assume_master: bool) -> Result<Greeting, Failure> {
        judge_with(replies, "-ERR unknown command 'HPEXPIRETIME'", assume_master)
    }

    fn judge_with(
        replies: [&str; 6],
        last: &str,
        assume_master: bool,
    ) -> Result<Greeting, Failure> {
        let replies: Vec<Reply> = replies.into_iter().chain([last]).map(reply).collect();
        Handshake::new(0, assume_master, false).judge(None, &replies, None)
    }

    fn ended() -> Option<Failure> {
        Some(Failure::new(Unknown::Closed, "end"))
    }

    #[test]
    fn refusals_are_told_apart() {
        let table: [(&str, Unknown); 20] = [
            ("-NOAUTH Authentication required.", Unknown::Auth),
            ("-WRONGPASS invalid username-password pair or user is disabled.", Unknown::Auth),
            ("-ERR invalid password", Unknown::Auth),
            ("-ERR Client sent AUTH, but no password is set", Unknown::NeedlessPassword),
            (
                "-ERR AUTH <password> called without any password configured for the default user.",
                Unknown::NeedlessPassword,
            ),
            ("-ERR DB index is out of range", Unknown::Database),
            ("-ERR SELECT is not allowed in cluster mode", Unknown::Cluster),
            ("-ERR This instance has cluster support disabled", Unknown::NoCluster),
            ("-ERR operation not permitted", Unknown::Auth),
            ("-DENIED Redis is running in protected mode because ...", Unknown::Protected),
            (
                "-NOPERM this user has no permissions to run the 'role' command",
                Unknown::NoPermission,
            ),
            ("-LOADING Redis is loading the dataset in memory", Unknown::Loading),
            ("-BUSY Redis is busy running a script.", Unknown::Busy),
            ("-MASTERDOWN Link with MASTER is down", Unknown::NotMaster),
            ("-WRONGTYPE Operation against a key", Unknown::WrongType),
            ("-ERR max number of clients reached", Unknown::MaxClients),
            ("-ERR max number of clients + cluster connections reached", Unknown::MaxClients),
            ("-ERR unknown command", Unknown::ServerError),
            ("-MISCONF disk", Unknown::ServerError),
            ("-", Unknown::ServerError),
        ];
        for (said, expected) in table {
            let Reply::Error(error) = reply(said) else { panic!("{said}") };
            assert_eq!(refusal(&error, true), expected, "{said}");
        }
    }

    #[test]
    fn a_server_that_allows_everything() {
        let info = "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n";
        let greeting = judge(
            ["OK", "-ERR unknown subcommand", "*master", info, "role:master\r\n", "-2"],
            false,
        )
        .unwrap();
        assert_eq!(
            greeting.caps,
            Caps {
                pexpiretime: true,
                hpexpiretime: false,
                role: RoleCheck::Role,
                info: true,
                sharded: false
            }
        );
        assert_eq!(greeting.version.as_deref(), Some("7.0.15"));
        assert_eq!(greeting.role, Some(Role::Master));
    }

    #[test]
    fn what_is_refused_is_replaced_or_missed() {
        let role = |role, info, assume| {
            judge(["OK", "OK", role, NOPERM, info, "-2"], assume).map(|it| it.caps.role)
        };
        assert_eq!(role("*slave", NOPERM, false), Ok(RoleCheck::Role));
        assert_eq!(role(NOPERM, "role:slave\r\n", false), Ok(RoleCheck::Info));
        assert_eq!(role(NOPERM, NOPERM, true), Ok(RoleCheck::Assumed));
        assert_eq!(role(NOPERM, NOPERM, false).unwrap_err().why, Unknown::RoleRefused);
        assert_eq!(role("OK", "nothing", false).unwrap_err().why, Unknown::RoleRefused);
        let probe = |probe| {
            judge(["OK", "OK", "*master", NOPERM, NOPERM, probe], false).unwrap().caps.pexpiretime
        };
        assert!(probe("-2"));
        assert!(probe(NOPERM_KEY));
        assert!(probe("-NOPERM No permissions to access a key"));
        for elsewhere in [
            "-MOVED 1234 10.0.0.6:6379",
            "-CLUSTERDOWN Hash slot not served",
            "-MASTERDOWN Link is down",
        ] {
            assert!(probe(elsewhere), "{elsewhere}");
        }
        assert!(!probe(NOPERM));
        assert!(!probe(
            "-ERR unknown command 'PEXPIRETIME', with args beginning with: 'lockwatch'"
        ));
    }

    /// A user who may not use it is not taken for a server that lacks it: what it would say is
    /// missed.
    #[test]
    fn a_server_has_deadlines_of_fields_whether_or_not_this_user_may_read_them() {
        let has = |last| {
            let before = ["OK", "OK", "*master", NOPERM, NOPERM, "-2"];
            judge_with(before, last, false).unwrap().caps.hpexpiretime
        };
        for last in ["*-2", NOPERM, NOPERM_KEY, "-MOVED 1234 10.0.0.6:6379"] {
            assert!(has(last), "{last}");
        }
        assert!(!has("-ERR unknown command 'HPEXPIRETIME', with args beginning with: 'lockwatch'"));
    }

    #[test]
    fn refusals_that_make_the_connection_useless() {
        for (refusal, why) in [
            ("-NOAUTH Authentication required.", Unknown::NoPassword),
            ("-ERR operation not permitted", Unknown::NoPassword),
            ("-DENIED Redis is running in protected mode", Unknown::Protected),
            ("-LOADING Redis is loading the dataset in memory", Unknown::Loading),
            ("-BUSY Redis is busy running a script.", Unknown::Busy),
            ("-ERR max number of clients reached", Unknown::MaxClients),
        ] {
            assert_eq!(judge([refusal; 6], true).unwrap_err().why, why);
        }
        let cut = Handshake::new(0, true, false);
        let limit = [reply("-ERR max number of clients reached")];
        assert_eq!(cut.judge(None, &limit, ended()).unwrap_err().why, Unknown::MaxClients);
        let [limit] = limit;
        assert_eq!(cut.judge(Some(&limit), &[], ended()).unwrap_err().why, Unknown::MaxClients);
        assert_eq!(cut.judge(None, &[reply("OK")], ended()).err(), ended());
        let unanswered = cut.judge(None, &[reply("OK")], None).unwrap_err();
        assert_eq!(unanswered.why, Unknown::Protocol);
    }

    /// The driver has hidden the password in it already: see `src/io/login.rs`.
    #[test]
    fn any_refusal_of_the_login_is_one_of_the_login() {
        let handshake = Handshake::new(3, false, false);
        assert_eq!(handshake.commands()[1], Command::new(["SELECT", "3"]));
        let echo = reply("-ERR unknown command 'AUTH', with args beginning with: '***'");
        let failure = handshake.judge(Some(&echo), &[], ended()).unwrap_err();
        assert_eq!(failure.why, Unknown::Auth);
        let range = [reply("-ERR unknown command 'HELLO'"), reply("-ERR DB index is out of range")];
        let failure = handshake.judge(Some(&reply("OK")), &range, ended()).unwrap_err();
        assert_eq!(
            (failure.why, &*failure.detail),
            (Unknown::Database, "ERR DB index is out of range")
        );
    }

    #[test]
    fn a_sentinel_is_told_from_a_server_before_anything_else() {
        let sentinel = Reply::Array(alloc::vec![
            Reply::Bytes(b"sentinel".to_vec()),
            Reply::Array(alloc::vec![Reply::Bytes(b"main".to_vec())]),
        ]);
        let unknown = || reply("-ERR unknown command 'SELECT'");
        let said = [
            unknown(),
            unknown(),
            reply("OK"),
            reply("OK"),
            sentinel,
            reply("x"),
            reply("x"),
            unknown(),
            unknown(),
        ];
        let failure = Handshake::new(3, false, false).judge(None, &said, None).unwrap_err();
        assert_eq!(failure.why, Unknown::Sentinel);
        assert_eq!(failure.detail, "it is a Sentinel; its masters are called main");
        let of_sentinel = Handshake::to_sentinel();
        let greeting = of_sentinel.judge(None, &said[2..], None).unwrap();
        assert_eq!(greeting.masters, Some(alloc::vec![String::from("main")]));
        let server = ["OK", "OK", "*slave", "x", "x", "-2", "*-2"].map(reply);
        let failure = of_sentinel.judge(None, &server, None).unwrap_err();
        assert_eq!(failure.why, Unknown::NoSentinel);
        let active = ["OK", "OK", "*active-replica", "x", "x", "-2", "*-2"].map(reply);
        let failure = Handshake::new(0, true, false).judge(None, &active, None).unwrap_err();
        assert_eq!(failure.why, Unknown::ActiveReplica);
    }

    /// Envoy's answer to `ROLE` is a list of those of its servers.
    #[test]
    fn a_proxy_is_no_server() {
        let one = Reply::Array(vec![Reply::Bytes(b"master".to_vec()), Reply::Int(7)]);
        let mut said: Vec<Reply> = ["OK", "OK", "x", "x", "", "-2", "*-2"].map(reply).to_vec();
        said[2] = Reply::Array(vec![one.clone(), one]);
        let failure = Handshake::new(0, true, false).judge(None, &said, None).unwrap_err();
        assert_eq!(failure.why, Unknown::Protocol);
        assert!(failure.detail.contains("the address of the server behind it"), "{failure:?}");
    }

    /// Nothing is selected before the server has said who it is.
    #[test]
    fn a_database_is_selected_behind_no_proxy() {
        let hello = |name: &str| {
            let pairs = ["server", name, "version", "6.0.0"].map(|word| Reply::Bytes(word.into()));
            Reply::Array(pairs.to_vec())
        };
        for (handshake, alone) in [
            (Handshake::new(3, true, false), 1),
            (Handshake::brief(3, true), 1),
            (Handshake::new(0, true, false), 0),
            (Handshake::to_sentinel(), 0),
        ] {
            assert_eq!(handshake.alone(), alone);
            let commands = handshake.commands();
            let (first, rest) = commands.split_at(alone);
            assert!(first.iter().all(|command| command.args[0] == b"HELLO"));
            assert_eq!(rest[0].args[0] == b"SELECT", alone == 1);
        }
        for name in ["envoy-redis-proxy", "Some-Proxy"] {
            assert!(!may_go_on(&hello(name)));
            let handshake = Handshake::new(3, true, false);
            let failure = handshake.judge(None, &[hello(name)], None).unwrap_err();
            assert_eq!(failure.why, Unknown::Protocol);
            assert!(failure.detail.contains(name) && failure.detail.contains("behind it"));
        }
        for server in [hello("redis"), hello("valkey"), reply("-ERR unknown command"), reply("*x")]
        {
            assert!(may_go_on(&server), "{server:?}");
        }
    }

    #[test]
    fn valkey_has_a_name_and_a_version_of_its_own() {
        let valkey = b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(version_of(valkey).as_deref(), Some("Valkey 9.1.2"));
        assert_eq!(version_of(b"redis_version:7.0.15\r\n").as_deref(), Some("7.0.15"));
        assert_eq!(version_of(b""), None);
    }

    #[test]
    fn a_version_that_could_not_be_shown_is_none() {
        assert_eq!(tame(b"7.2.4-rc1"), Some("7.2.4-rc1"));
        for version in ["", "7\"", "7 8", "é", &"7".repeat(33)] {
            assert_eq!(tame(version.as_bytes()), None, "{version:?}");
        }
    }
}
