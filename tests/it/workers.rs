//! The code of docs/workers.md, taken from the page and run: real workers beside the real agent,
//! which hang, end and are killed. `tests/workers` has what they need around them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::redis::{CLIENT, RedisServer};
use crate::support::{PATIENCE, maven, redis_py, send_signal, skip};

const TASK: &str = "outbound";
const LOCK: &str = "outbound:lock";
const CLAIMS: &str = "lockwatch:claims:outbound";
const HOSTS: &str = "lockwatch:hosts";
/// How often the agent is asked.
const LOOK: Duration = Duration::from_millis(50);

/// A Redis, the agent with the page's configuration, and a folder for workers.
struct Scene {
    /// The first to go.
    workers: Vec<OwnedChild>,
    agent: Agent,
    server: RedisServer,
    folder: TempDir,
}

impl Scene {
    /// `None`, with a message, on a machine that lacks Redis. `more`: further lines of the task.
    fn open(test: &str, library: &str, more: &str) -> Option<Scene> {
        let server = RedisServer::start(test)?;
        let folder = TempDir::new().unwrap();
        let tasks = replaced(
            &code("config"),
            &[
                ("library: string", &format!("library: {library}")),
                ("fresh_for: 10s", "fresh_for: 2s"),
                ("stale_after: 5m", "stale_after: 3s"),
            ],
        );
        let url = format!("redis://{}", server.address());
        let agent = Agent::start(&format!(
            "redis:\n  main: {{url: \"{url}\", interval: 200ms}}\n{tasks}{}",
            more.replace("/run/outbound", folder.path().to_str().unwrap())
        ));
        Some(Scene { workers: Vec::new(), agent, server, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Starts a worker.
    fn start(&mut self, mut command: Command) {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        command
            .current_dir(self.folder.path())
            .env("FOLDER", self.folder.path())
            .env("REDIS_URL", format!("redis://{}", self.server.address()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.workers.push(OwnedChild::spawn(&mut command));
    }

    /// Kills the newest worker, as a crash would.
    fn kill(&mut self) {
        let mut worker = self.workers.pop().unwrap();
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    /// Waits until the newest worker has ended by itself.
    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            // It stays in the list until then, so that it never outlives the test.
            if let Some(status) = self.workers.last_mut().unwrap().try_wait().unwrap() {
                self.workers.pop();
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.said());
            thread::sleep(LOOK);
        }
    }

    /// What the workers printed.
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("log")).unwrap_or_default()).into_owned()
    }

    /// Waits until the task's JSON fulfils the condition, and returns it.
    #[track_caller]
    fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let task = self.agent.task(TASK);
            if condition(&task) {
                return task;
            }
            let said = || format!("{task:#}\nthe workers said:\n{}", self.said());
            assert!(began.elapsed() < PATIENCE, "not in time: {what}\n{}", said());
            thread::sleep(LOOK);
        }
    }

    /// Waits until a worker is seen at work: its host, its claim, and progress that moves.
    #[track_caller]
    fn until_at_work(&self) {
        let task = self.until("host, claim and progress", |task| {
            let holder = &task["lock"]["hold"]["holders"][0];
            task["verdict"] == "running"
                && holder["host"] == host().as_str()
                && live_claims(task).contains(&holder["holder"])
                && task["progress"]["moved"].is_string()
        });
        let moved = &task["progress"]["moved"];
        self.until("the progress moves on", |task| {
            task["progress"]["moved"].is_string() && task["progress"]["moved"] != *moved
        });
    }

    /// The work hangs, and goes on after that. `claims`: whether the worker's claim lives meanwhile.
    #[track_caller]
    fn hang(&self, claims: bool) {
        self.write("hang", "");
        self.until("stalled", |task| {
            task["verdict"] == "stalled" && live_claims(task).is_empty() != claims
        });
        fs::remove_file(self.path("hang")).unwrap();
        self.until_at_work();
    }

    /// The worker is killed: the claim dies at once, the lock only with its lease.
    #[track_caller]
    fn crash(&mut self) {
        self.kill();
        let task = self.until("the claim dies", |task| live_claims(task).is_empty());
        assert_eq!(task["lock"]["held"], true, "{task:#}");
        assert_eq!(task["lock"]["hold"]["holders"][0]["host"], host().as_str(), "{task:#}");
    }

    /// An orderly end left neither lock nor claim.
    #[track_caller]
    fn assert_tidy(&self) {
        assert_eq!(self.server.cli(&["exists", LOCK]), "0");
        // What a guard states of the runs of its script stays.
        let claims = self.server.cli(&["hkeys", CLAIMS]);
        assert!(claims.lines().all(|field| field.starts_with("runs:")), "{claims}");
        self.until("free", |task| task["lock"]["held"] == false && live_claims(task).is_empty());
    }
}

fn live_claims(task: &Value) -> &[Value] {
    task["live_claims"].as_array().unwrap()
}

/// What this machine calls itself.
fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim_end().to_owned()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What surrounds the workers.
fn around(name: &str) -> PathBuf {
    root().join("tests/workers").join(name)
}

/// The code of the page below this mark.
fn code(mark: &str) -> String {
    let page = fs::read_to_string(root().join("docs/workers.md")).unwrap();
    let (_, below) = page.split_once(&format!("\n<!-- worker: {mark} -->\n```")).expect(mark);
    let (_language, below) = below.split_once('\n').unwrap();
    let (code, _) = below.split_once("\n```\n").expect(mark);
    format!("{code}\n")
}

/// Code that the page gains must be run here, too.
#[test]
fn no_code_of_the_page_is_left_out() {
    let page = fs::read_to_string(root().join("docs/workers.md")).unwrap();
    let marks: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("<!-- worker: ")?.strip_suffix(" -->"))
        .collect();
    let run =
        ["config", "java", "spring", "python", "node", "go", "shell", "guard-config", "guard"];
    assert_eq!(marks, run);
    let fences = page.lines().filter(|line| line.starts_with("```")).count();
    assert_eq!(fences, 2 * run.len());
}

/// The code with other words, each of which must be in it.
fn replaced(code: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(code.to_owned(), |code, (word, other)| {
        assert!(code.contains(word), "no {word} in\n{code}");
        code.replace(word, other)
    })
}

/// A worker that takes, renews and releases a lock itself: seen at work; hangs and goes on; ends;
/// is killed.
#[track_caller]
fn prove(scene: &mut Scene, command: impl Fn(&Scene) -> Command) {
    scene.start(command(scene));
    scene.until_at_work();
    scene.hang(false);
    scene.write("stop", "");
    let ended = scene.ended();
    assert!(ended.success(), "{ended}: {}", scene.said());
    scene.assert_tidy();

    fs::remove_file(scene.path("stop")).unwrap();
    scene.start(command(scene));
    scene.until_at_work();
    scene.crash();
}

#[track_caller]
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&said));
}

/// Compiles a class of the page with what surrounds it, and starts that.
#[track_caller]
fn java(scene: &Scene, mark: &str, class: &str, main: &str) -> impl Fn(&Scene) -> Command + use<> {
    let libraries = format!("{}/*", maven::libraries("workers").to_str().unwrap());
    scene.write(&format!("{class}.java"), &code(mark));
    let path = format!("{libraries}:{}", scene.folder.path().to_str().unwrap());
    let mut compiler = Command::new("javac");
    compiler.args(["-Xlint:all,-processing", "-Werror", "-cp", &libraries, "-d"]);
    compiler.arg(scene.folder.path()).arg(scene.path(&format!("{class}.java")));
    compiler.args([around("java/Orders.java"), around(&format!("java/{main}.java"))]);
    succeeds(&mut compiler);
    let main = main.to_owned();
    move |_| {
        let mut command = Command::new("java");
        command.args(maven::JVM_FLAGS).args(["-cp", &path, &main]);
        command
    }
}

#[test]
fn a_worker_in_java_with_redisson() {
    let test = "workers::a_worker_in_java_with_redisson";
    if !skip::has(test, &["java", "javac", "mvn"]) {
        return;
    }
    let Some(mut scene) = Scene::open(test, "redisson", "") else { return };
    let command = java(&scene, "java", "Outbound", "Plain");
    prove(&mut scene, command);
    assert_eq!(scene.server.cli(&["hlen", HOSTS]), "2", "each client has its entry");
}

#[test]
fn a_worker_in_spring() {
    let test = "workers::a_worker_in_spring";
    if !skip::has(test, &["java", "javac", "mvn"]) {
        return;
    }
    let Some(mut scene) = Scene::open(test, "redisson", "") else { return };
    let command = java(&scene, "spring", "OutboundWorker", "Spring");
    prove(&mut scene, command);
    assert_eq!(scene.server.cli(&["hlen", HOSTS]), "1", "only what was killed leaves its entry");
}

fn python_command(scene: &Scene, python: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-B").arg(around("main.py")).env("PYTHONPATH", scene.folder.path());
    command
}

#[test]
fn a_worker_in_python() {
    let test = "workers::a_worker_in_python";
    let Some(python) = redis_py::python(test) else { return };
    let Some(mut scene) = Scene::open(test, "string", "") else { return };
    scene.write("outbound.py", &code("python"));
    prove(&mut scene, |scene| python_command(scene, python));
    assert_eq!(scene.server.cli(&["hlen", HOSTS]), "1", "only what was killed leaves its entry");
    let token = scene.server.cli(&["get", LOCK]);
    assert_eq!(scene.server.cli(&["hget", HOSTS, &token]), host());
    let task = scene.agent.task(TASK);
    assert_eq!(task["lock"]["hold"]["holders"][0]["digest"], true);
    assert!(!task.to_string().contains(&token), "{task:#}");
}

/// What the claims of workers prove that never ask whether they still have the lock.
#[test]
fn workers_that_go_on_without_their_lock_are_found_out() {
    let test = "workers::workers_that_go_on_without_their_lock_are_found_out";
    let Some(python) = redis_py::python(test) else { return };
    let Some(mut scene) = Scene::open(test, "string", "") else { return };
    let careless =
        [("            lock.extend(30, replace_ttl=True)\n", ""), ("timeout=30", "timeout=5")];
    scene.write("outbound.py", &replaced(&code("python"), &careless));
    scene.start(python_command(&scene, python));
    scene.until_at_work();
    scene.until("lock_lost", |task| {
        let problems = task["problems"].as_array().unwrap();
        problems.iter().any(|problem| problem["problem"] == "lock_lost")
    });

    scene.write("outbound.py", &code("python"));
    scene.start(python_command(&scene, python));
    scene.until("both claim", |task| live_claims(task).len() == 2);
    scene.until("held by the second", |task| task["lock"]["held"] == true);
    scene.until("split", |task| {
        let splits = task["splits"].as_array().unwrap();
        task["verdict"] == "split"
            && splits.iter().any(|kind| kind == "claims" || kind == "overlap")
    });
}

#[test]
fn a_worker_in_node() {
    let test = "workers::a_worker_in_node";
    if !skip::has(test, &["node"]) {
        return;
    }
    let packages = root().join("target/workers/node_modules");
    if !packages.join("redis/package.json").exists() {
        skip::say(test, "the package redis of Node (scripts/setup test)");
        return;
    }
    let Some(mut scene) = Scene::open(test, "string", "") else { return };
    scene.write("outbound.mjs", &code("node"));
    fs::copy(around("node/main.mjs"), scene.path("main.mjs")).unwrap();
    symlink(packages, scene.path("node_modules")).unwrap();
    prove(&mut scene, |_| {
        let mut command = Command::new("node");
        command.arg("main.mjs");
        command
    });
    assert_eq!(scene.server.cli(&["hlen", HOSTS]), "1", "only what was killed leaves its entry");
}

#[test]
fn a_worker_in_go() {
    let test = "workers::a_worker_in_go";
    if !skip::has(test, &["go"]) {
        return;
    }
    let Some(mut scene) = Scene::open(test, "string", "") else { return };
    scene.write("outbound.go", &code("go"));
    for file in ["main.go", "go.mod", "go.sum"] {
        fs::copy(around("go").join(file), scene.path(file)).unwrap();
    }
    let mut build = Command::new("go");
    build.args(["build", "-mod=readonly", "-o", "worker", "."]);
    succeeds(build.current_dir(scene.folder.path()));
    prove(&mut scene, |scene| Command::new(scene.path("worker")));
    assert_eq!(scene.server.cli(&["hlen", HOSTS]), "1", "only what was killed leaves its entry");
}

/// `PATH` with this folder before the others.
fn path_with(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

#[test]
fn a_worker_in_the_shell() {
    let test = "workers::a_worker_in_the_shell";
    if !skip::has(test, &[CLIENT]) {
        return;
    }
    let Some(mut scene) = Scene::open(test, "string", "") else { return };
    scene.write("outbound.sh", &code("shell"));
    prove(&mut scene, |_| {
        let mut command = Command::new("sh");
        command.arg("outbound.sh").env("PATH", path_with(&around("")));
        command
    });
    assert_eq!(scene.server.cli(&["hlen", HOSTS]), "1", "only what was killed leaves its entry");
}

/// The guard's claim says that guard and script live, so only the progress shows that work hangs.
#[test]
fn a_script_under_a_guard() {
    let test = "workers::a_script_under_a_guard";
    let Some(mut scene) = Scene::open(test, "redisson", &code("guard-config")) else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_lockwatch"));
    let config = scene.agent.path("lockwatch.yml");
    let paths = [
        ("/run/outbound", scene.folder.path().to_str().unwrap()),
        ("/etc/lockwatch.yml", config.to_str().unwrap()),
    ];
    scene.write("outbound.sh", &replaced(&code("guard"), &paths));
    symlink(program, scene.path("lockwatch")).unwrap();
    symlink(around("ship_next"), scene.path("ship_next")).unwrap();
    let command = |scene: &Scene| {
        let mut command = Command::new(program);
        command.args(["guard", "--config.file"]).arg(scene.agent.path("lockwatch.yml"));
        command.args([TASK, "--", "sh", "outbound.sh"]);
        command.env("PATH", path_with(scene.folder.path()));
        command
    };
    scene.start(command(&scene));
    scene.until_at_work();
    scene.hang(true);
    let starts = scene.said().matches("starts the script").count();
    assert_eq!(starts, 1, "the fence let it pass: {}", scene.said());
    send_signal(scene.workers[0].id(), "TERM");
    let ended = scene.ended();
    assert!(ended.code().is_some(), "{ended}: {}", scene.said());
    scene.assert_tidy();

    scene.start(command(&scene));
    scene.until_at_work();
    scene.crash();
}
