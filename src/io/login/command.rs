//! Runs the command that prints a password, within bounds. Whatever it prints is a secret: nothing
//! of it is shown, neither of its standard error.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::SECRET_BYTES_MAX;

/// Maximum duration: a command may have to ask a server of its own.
const LIMIT: Duration = Duration::from_secs(10);
/// How many instances of one command run at the same time, at most. Those of other stores do not
/// wait for them.
const AT_ONCE: usize = 4;

/// The commands that are not waited for yet.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The first bytes that the command writes to its standard output, when it has ended successfully.
pub(super) async fn output(words: &[String]) -> Result<Vec<u8>, String> {
    output_within(words, LIMIT).await
}

async fn output_within(words: &[String], limit: Duration) -> Result<Vec<u8>, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(String::from("the password command names no program"));
    };
    let failed = |what: String| format!("the password command {program} {what}");
    // It is never closed.
    let _turn = turns(words).acquire_owned().await.map_err(|error| failed(error.to_string()))?;
    let child = spawn(program, arguments).map_err(|error| failed(unstartable(&error)))?;
    let mut group = Group { pid: id(&child), child };
    let (bytes, status) = match timeout(limit, run(&mut group.child)).await {
        Ok(ended) => ended.map_err(|error| failed(format!("cannot be waited for: {error}")))?,
        Err(_) => return Err(failed(format!("did not end within {limit:?}, and was killed"))),
    };
    if !status.success() {
        return Err(failed(format!(
            "failed ({status}); run it as the user of lockwatch to see what it says"
        )));
    }
    Ok(bytes)
}

fn turns(words: &[String]) -> Arc<Semaphore> {
    static TURNS: Mutex<BTreeMap<Vec<String>, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    // A command of an earlier configuration that nobody runs any more is forgotten.
    turns.retain(|_, one| Arc::strong_count(one) > 1);
    Arc::clone(turns.entry(words.to_vec()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))))
}

fn spawn(program: &str, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true);
    // Nobody may reap it before it is known.
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    running.extend(id(&child));
    Ok(child)
}

/// Calls `reap` with the commands that run now, while no other one starts or ends.
pub(crate) fn beside_commands(reap: impl FnOnce(&[Pid])) {
    reap(&RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
}

/// `None`: it has been waited for.
fn id(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

async fn run(child: &mut Child) -> io::Result<(Vec<u8>, ExitStatus)> {
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(SECRET_BYTES_MAX + 2).read_to_end(&mut bytes).await?;
    }
    Ok((bytes, child.wait().await?))
}

fn unstartable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            String::from("does not exist; write its path, or have it in a folder of PATH")
        }
        io::ErrorKind::PermissionDenied => {
            String::from("may not be executed; let the user of lockwatch execute it")
        }
        _ => format!("cannot be started: {error}"),
    }
}

/// A process with all that it started. Dropping it kills them unless it has ended.
struct Group {
    child: Child,
    pid: Option<Pid>,
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once it has been waited for, another process may have the number. Else it may have ended
        // a moment ago.
        let _ended = id(&self.child).map(|id| kill_process_group(id, Signal::KILL));
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|pid| Some(*pid) != self.pid);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(String::from).to_vec()
    }

    #[tokio::test]
    async fn what_is_printed_is_returned_up_to_a_bound() {
        assert_eq!(output(&shell("echo hunter2")).await, Ok(b"hunter2\n".to_vec()));
        assert_eq!(
            output(&shell("printf hunter2; echo secret >&2")).await,
            Ok(b"hunter2".to_vec())
        );
        assert_eq!(output(&shell("true")).await, Ok(Vec::new()));
        let words = ["printf", "%s", "a b"].map(String::from);
        assert_eq!(output(&words).await, Ok(b"a b".to_vec()), "no shell splits it");
        let endless = output(&shell("yes hunter2")).await.unwrap_err();
        assert!(endless.contains("failed ("), "{endless}");
    }

    #[tokio::test]
    async fn what_fails_is_told_without_what_it_said() {
        for (words, expected) in [
            (shell("echo hunter2; echo hunter2 >&2; exit 3"), "failed (exit status: 3)"),
            (vec![String::from("/no/such/program")], "/no/such/program does not exist"),
            (vec![String::from("/etc/passwd")], "may not be executed"),
        ] {
            let error = output(&words).await.unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }

    #[tokio::test]
    async fn one_that_hangs_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let before = Instant::now();
        let error = output_within(&shell(&script), Duration::from_millis(500)).await.unwrap_err();
        assert!(error.contains("did not end within 500ms"), "{error}");
        assert!(before.elapsed() < Duration::from_secs(10));
        let id = std::fs::read_to_string(file).unwrap();
        let status = format!("/proc/{}/stat", id.trim());
        let is_gone = || {
            let stat = std::fs::read_to_string(&status);
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        while !is_gone() {
            assert!(before.elapsed() < Duration::from_secs(30), "the sleeping child lives");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
