//! What each server of a ZooKeeper ensemble says, and whether the nodes of the tasks may be read.

use std::sync::Arc;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{LockSpec, StoreIndex, TaskSpec};
use lockwatch_watch::zookeeper::codec::{Answer, Ask};
use lockwatch_watch::zookeeper::{join, nodes, recipes};
use tokio::task::JoinSet;

use super::line::{Line, TASKS_MAX};
use crate::config::{Config, HostPort, ZooKeeperConfig};
use crate::io::{Failure, Nodes, introduction};
use crate::text::identity::escape;

/// What the servers of one ensemble said, and what is worth a word about its tasks.
pub(super) async fn lines(
    config: &Config,
    index: StoreIndex,
    ensemble: &ZooKeeperConfig,
) -> Vec<Line> {
    let mut asked = JoinSet::new();
    for (place, at) in ensemble.servers.iter().cloned().enumerate() {
        let ensemble = ensemble.clone();
        asked.spawn(async move { (place, visit(&ensemble, &at).await) });
    }
    let mut visited = asked.join_all().await;
    visited.sort_by_key(|(place, _)| *place);
    let (mut lines, mut sessions) = (Vec::new(), Vec::new());
    for (_, (line, session)) in visited {
        lines.push(line);
        sessions.extend(session);
    }
    let mut sessions = sessions.into_iter();
    if let Some(mut session) = sessions.next() {
        let tasks: Vec<Arc<TaskSpec>> =
            config.tasks_on(index).into_iter().map(|(_, task)| task).collect();
        match of_tasks(&mut session, &tasks, ensemble.login.password.is_some()).await {
            Ok(said) => lines.extend(said),
            Err(failure) => {
                lines.push(Line::bad("the tasks".to_owned(), failure.why, Some(&failure.detail)));
            }
        }
        session.close().await;
    }
    for session in sessions {
        session.close().await;
    }
    lines
}

/// One server: whether it grants a session, and what it says of itself.
async fn visit(ensemble: &ZooKeeperConfig, at: &HostPort) -> (Line, Option<Nodes>) {
    let of = escape(at.to_string().as_bytes()).into_owned();
    let (session, said) = tokio::join!(Nodes::open(ensemble, at), introduction(ensemble, at));
    let said = said.unwrap_or_default();
    match session {
        Ok(session) => {
            let says = format!("ok: grants a session, {}", itself(&said));
            (Line::good(of, says), Some(session))
        }
        Err(Failure { why, detail }) => {
            // It closes the connection without a word, and says why only here.
            let is_alone = said.contains("not currently serving requests");
            let why = if is_alone { Unknown::Quorum } else { why };
            (Line::bad(of, why, Some(&detail)), None)
        }
    }
}

/// What a server says of itself in its answer to `srvr`, which it may refuse.
fn itself(said: &str) -> String {
    let after = |words: &str| said.lines().find_map(|line| line.strip_prefix(words));
    let version = after("Zookeeper version: ").and_then(|rest| rest.split(['-', ',']).next());
    match (after("Mode: "), version) {
        (Some(mode), Some(version)) => {
            format!("{}, version {}", escape(mode.as_bytes()), escape(version.as_bytes()))
        }
        _ => "and does not say its version (`srvr` is switched off, which does no harm)".to_owned(),
    }
}

/// What is worth a word about the nodes of the tasks.
async fn of_tasks(
    session: &mut Nodes,
    tasks: &[Arc<TaskSpec>],
    has_login: bool,
) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for task in tasks {
        if lines.len() >= TASKS_MAX {
            break;
        }
        for (path, with_children) in nodes(task) {
            let lock = task.lock().filter(|lock| lock.key == path.as_bytes());
            let found = of_node(session, &path, with_children, lock, has_login).await?;
            let of = || format!("task {}", escape(task.name.as_bytes()));
            lines.extend(found.into_iter().map(|found| match found {
                Found::Unreadable(says) => Line { of: of(), says, is_good: false },
                Found::Hint(says) => Line::good(of(), says),
            }));
        }
    }
    Ok(lines)
}

/// What is worth a word about a node.
enum Found {
    /// It may not be read, and why.
    Unreadable(String),
    /// Something that need not be wrong.
    Hint(String),
}

async fn of_node(
    session: &mut Nodes,
    path: &str,
    with_children: bool,
    lock: Option<&LockSpec>,
    has_login: bool,
) -> Result<Vec<Found>, Failure> {
    let node = match with_children {
        true => Ask::Children(path.to_owned()),
        false => Ask::Data(path.to_owned()),
    };
    let names = match session.ask(&[node]).await?.pop().flatten() {
        Some(Answer::NoAuth) => return Ok(vec![unreadable(path, has_login)]),
        Some(Answer::NoNode) => {
            let path = escape(path.as_bytes());
            return Ok(vec![Found::Hint(match lock {
                Some(_) => format!("its folder {path} does not exist, so the lock is free now"),
                None => format!("{path} does not exist now"),
            })]);
        }
        Some(Answer::Children(names, _)) => names,
        Some(_) => return Ok(Vec::new()),
        None => {
            let path = escape(path.as_bytes());
            return Ok(vec![Found::Unreadable(format!("{path} has too many children"))]);
        }
    };
    let mut found: Vec<Found> =
        lock.and_then(|lock| foreign(lock, &names)).map(Found::Hint).into_iter().collect();
    // Who may read the folder sees the names of all children, readable or not.
    let child = names.first().map(|name| join(path, name));
    if let Some(child) = child
        && let Some(Answer::NoAuth) =
            session.ask(&[Ask::Data(child.clone())]).await?.pop().flatten()
    {
        found.push(unreadable(&child, has_login));
    }
    Ok(found)
}

fn unreadable(path: &str, has_login: bool) -> Found {
    let login = match has_login {
        true => "; ZooKeeper refuses no login, so check user and password in `auth_file`, too",
        false => "",
    };
    Found::Unreadable(format!(
        "no_permission: {} may not be read: give READ as `lockwatch acl` prints it{login}",
        escape(path.as_bytes())
    ))
}

/// What is to be said of children of a lock that are none of its library's contenders.
fn foreign(lock: &LockSpec, names: &[String]) -> Option<String> {
    let (path, library) = (escape(&lock.key), lock.library.as_str());
    let queue = recipes::queue(recipes::named(library)?, names);
    if let Some(child) = queue.blocked_by.filter(|_| !queue.contenders.is_empty()) {
        let child = escape(child.as_bytes());
        return Some(format!(
            "{child} in {path} is none of {library}, and keeps all from the lock"
        ));
    }
    if !queue.contenders.is_empty() || names.is_empty() {
        return None;
    }
    let fits = recipes::recognise(names).filter(|fits| fits.name() != library);
    let fits = match fits {
        Some(fits) => format!("`library: {}` fits", fits.name()),
        None => "is this the folder of the lock?".to_owned(),
    };
    Some(format!("no child of {path} is a contender of {library}; {fits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_ends_before_what_debian_adds() {
        let said = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2023\nMode: follower\n";
        assert_eq!(itself(said), "follower, version 3.8.0");
        let refused = "srvr is not executed because it is not in the whitelist.\n";
        assert!(itself(refused).contains("does no harm"));
    }

    #[test]
    fn foreign_names_are_said() {
        let hint = |library: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            foreign(&LockSpec::new(b"/a", library), &names)
        };
        let kazoo = "00000000000000000000000000000000__lock__0000000000";
        let curator = "_c_00000000-0000-0000-0000-000000000000-lock-0000000001";
        assert_eq!(hint("kazoo", &[kazoo]), None);
        assert_eq!(hint("curator", &[]), None);
        assert!(hint("curator", &[kazoo]).unwrap().ends_with("`library: kazoo` fits"));
        assert!(hint("kazoo", &[curator, "note"]).unwrap().ends_with("`library: curator` fits"));
        assert!(hint("plain", &["note"]).unwrap().ends_with("the folder of the lock?"));
        assert!(hint("curator", &[curator, "a", "0"]).unwrap().starts_with("0 in /a is none of"));
    }
}
