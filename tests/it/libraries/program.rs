//! A program around a real lock library, which takes and releases a lock on command.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::support::child::OwnedChild;
use crate::support::redisson::Redisson;

/// The lease of every lock here.
pub(super) const LEASE_MS: u32 = 3_000;

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Take,
    Read,
    Renew,
    Release,
}

impl Word {
    fn name(self) -> &'static str {
        match self {
            Word::Take => "take",
            Word::Read => "read",
            Word::Renew => "renew",
            Word::Release => "release",
        }
    }
}

pub(super) enum Program {
    /// It answers each word with a line.
    Words { child: OwnedChild, input: ChildStdin, output: Lines<BufReader<ChildStdout>> },
    /// It has a protocol of its own.
    Redisson { program: Redisson, name: String },
}

/// The folder with all libraries.
pub(super) fn installed() -> PathBuf {
    root().join("target/libraries")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What runs the file of a program, and what must be there for it.
fn interpreter(file: &str) -> (PathBuf, PathBuf) {
    let installed = installed();
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        Some("py") => (root().join("target/dashboards/bin/python"), installed.join("python")),
        Some("php") => ("php".into(), "/usr/share/php/Symfony/Component/Lock".into()),
        Some(_) => ("node".into(), installed.join("node/node_modules")),
        None => (installed.join("go/locks"), installed.join("go/locks")),
    }
}

/// What is missing to run it, if anything.
pub(super) fn missing(file: &str) -> Option<PathBuf> {
    let needed = interpreter(file).1;
    (file != "redisson" && !needed.exists()).then_some(needed)
}

/// The version of Redisson.
fn of_redisson() -> String {
    let pom = std::fs::read_to_string(root().join("tests/redisson/pom.xml")).unwrap();
    let (_, after) = pom.split_once("<artifactId>redisson</artifactId>").unwrap();
    let (_, version) = after.split_once("<version>").unwrap();
    version.split('<').next().unwrap().to_owned()
}

impl Program {
    /// Starts it, and returns the version of the library. `library`: which one, if it has several.
    pub(super) fn start(
        test: &str,
        (file, library): (&str, Option<&str>),
        port: u16,
        key: &str,
    ) -> Option<(Program, String)> {
        if file == "redisson" {
            let mut program = Redisson::start(test)?;
            program.connect("c", &format!("port={port} watchdog={LEASE_MS}"));
            return Some((Program::Redisson { program, name: key.to_owned() }, of_redisson()));
        }
        let (interpreter, _) = interpreter(file);
        let mut command = Command::new(interpreter);
        if file.contains('.') {
            command.arg(root().join("tests/libraries").join(file));
        }
        command
            .args([&port.to_string(), "hold", key])
            .args(library)
            .env("PYTHONPATH", installed().join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("NODE_PATH", installed().join("node/node_modules"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command);
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = output.next().expect("the program ended").unwrap();
        let version = ready.strip_prefix("ready ").unwrap().trim_start_matches('v').to_owned();
        Some((Program::Words { child, input, output }, version))
    }

    /// Returns once it is done.
    #[track_caller]
    pub(super) fn run(&mut self, word: Word) {
        match self {
            Program::Words { input, output, .. } => {
                writeln!(input, "{}", word.name()).unwrap();
                let line = output.next().expect("the program ended").unwrap();
                assert!(line.starts_with(word.name()), "{line}");
            }
            Program::Redisson { program, name } => {
                let verb = if word == Word::Take { "lock" } else { "unlock" };
                program.run(&format!("{verb} c t {name}"));
            }
        }
    }

    pub(super) fn kill(&mut self) {
        match self {
            Program::Words { child, .. } => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            Program::Redisson { program, .. } => _ = program.kill(),
        }
    }
}
