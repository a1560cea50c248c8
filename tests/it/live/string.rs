//! The library `string` with the locks of the real redis-py.

use crate::support::PATIENCE;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use super::config;
use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;
use crate::support::redis_py;
use crate::support::truth::rule;

/// Takes and releases locks on command, one per line; answers with the token.
const PROGRAM: &str = r"
import sys, redis
client, locks = redis.Redis(port=int(sys.argv[1])), {}
for line in sys.stdin:
    verb, name, *timeout = line.split()
    if verb == 'acquire':
        locks[name] = client.lock(name, timeout=float(timeout[0]) if timeout else None)
        assert locks[name].acquire(blocking=False)
    elif verb == 'extend':
        assert locks[name].extend(float(timeout[0]), replace_ttl=True)
    else:
        locks[name].release()
    print(locks[name].local.token.decode() if verb != 'release' else '-', flush=True)
";

struct RedisPy {
    _child: OwnedChild,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl RedisPy {
    /// `None`, with a message, on a machine without redis-py.
    fn start(test: &str, server: &RedisServer) -> Option<RedisPy> {
        let mut command = Command::new(redis_py::python(test)?);
        command
            .args(["-c", PROGRAM, &server.port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command);
        let (stdin, stdout) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Some(RedisPy { _child: child, stdin, stdout })
    }

    /// Runs a command and returns the token.
    fn run(&mut self, command: &str) -> String {
        writeln!(self.stdin, "{command}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "{command}: the client has ended");
        answer.trim_end().to_owned()
    }
}

#[test]
fn a_lock_of_redis_py_is_followed_from_its_token_to_its_end_and_the_token_stays_secret() {
    let _rule = rule("14 hostile bytes");
    let test = "live::string: redis-py";
    let Some(server) = RedisServer::start(test) else { return };
    let Some(mut redis_py) = RedisPy::start(test, &server) else { return };
    let names = ["released", "expiring", "forever", "extended"];
    let task =
        |name: &&str| format!("  - {{name: {name}, lock: {{key: {name}, library: string}}}}\n");
    let agent =
        Agent::start(&config(&server, "200ms", &names.iter().map(task).collect::<String>()));
    agent.until(PATIENCE, "read", |page| {
        names.iter().all(|name| page.of(name, "lock_held") == Some(0.0))
    });
    let watch = agent.watch();
    let tokens = [
        redis_py.run("acquire released 20"),
        redis_py.run("acquire expiring 2.5"),
        redis_py.run("acquire forever"),
        redis_py.run("acquire extended 4"),
    ];
    let page = agent.until(PATIENCE, "held", |page| {
        names.iter().all(|name| page.of(name, "lock_held") == Some(1.0))
    });
    for (name, token) in names.iter().zip(&tokens) {
        assert_eq!(server.cli(&["get", name]), *token);
        let digest = page.label(name, "lock_holder", "holder").unwrap();
        assert!(
            digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{digest}"
        );
        assert!(!token.contains(&digest), "{digest}");
        let holder = agent.task(name)["lock"]["hold"]["holders"][0].clone();
        assert_eq!((&holder["holder"], &holder["digest"]), (&digest.as_str().into(), &true.into()));
    }
    assert_eq!(page.of("forever", "lock_persistent"), Some(1.0));
    assert_eq!(page.of("forever", "lock_ttl_seconds"), Some(f64::INFINITY));
    assert_eq!(page.of("released", "lock_persistent"), Some(0.0));

    redis_py.run("extend extended 8");
    agent.until(PATIENCE, "extended", |page| {
        page.of("extended", "lock_renewals_total") == Some(1.0)
    });
    redis_py.run("release released");
    agent.until(PATIENCE, "released", |page| page.ends("released", "ended_early") == 1.0);
    let page = agent.until(PATIENCE, "expired", |page| page.ends("expiring", "expired") == 1.0);
    assert_eq!(
        page.of("extended", "lock_held"),
        Some(1.0),
        "the old deadline is not its own any more"
    );
    redis_py.run("release forever");
    agent.until(PATIENCE, "released", |page| page.ends("forever", "ended_early") == 1.0);

    let pages: Vec<Exposition> = watch.stop();
    let mut shown: Vec<String> = pages.iter().map(|page| page.text().to_owned()).collect();
    shown.extend([agent.text("/"), agent.text("/api/v1/tasks"), agent.log()]);
    for token in &tokens {
        assert!(
            token.len() == 32 && shown.iter().all(|text| !text.contains(token.as_str())),
            "{token} is shown"
        );
    }
}
