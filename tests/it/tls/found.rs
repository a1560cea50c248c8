//! TLS with servers that are found: by Sentinels, and in a cluster.

use super::*;
use crate::support::agent::program;
use crate::support::cluster::Cluster;
use crate::support::network::{Member, Options};
use crate::support::replicas::Replicated;
use crate::support::sentinels::{MASTER, SentinelOptions, Sentinels};

/// How the agent is configured wrongly, or the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Right,
    WrongAuthority,
    WrongName,
    Expired,
    NoCertificate,
}

impl Case {
    fn expected(self) -> Option<&'static str> {
        match self {
            Case::Right => None,
            Case::WrongAuthority => Some("tls_untrusted"),
            Case::WrongName => Some("tls_name"),
            Case::Expired => Some("tls_expired"),
            Case::NoCertificate => Some("tls_client"),
        }
    }
}

/// The agent's configuration for servers that `form` names.
fn config(papers: &Papers, form: &str, case: Case) -> String {
    let ca = if case == Case::WrongAuthority { &papers.other_ca } else { &papers.ca };
    let name = if case == Case::WrongName { ", server_name: cache.example" } else { "" };
    format!(
        "redis:\n  main:\n    {form}\n    tls: {{ca_file: {ca:?}{name}}}\n    interval: 200ms\n    \
         want: {{}}\ntasks:\n  - {{name: a, lock: {{key: a}}, wanted: {{hash: \"{{a}}:users\"}}, \
         blind_after: 5s, settle: 1s}}\n  \
         - {{name: b, lock: {{key: b}}, blind_after: 5s, settle: 1s}}\n"
    )
}

/// Starts an agent, and waits until it shows what the case makes of it.
fn judge(papers: &Papers, form: &str, case: Case) {
    let agent = Agent::start(&config(papers, form, case));
    agent.until_view(PATIENCE, &format!("{case:?}: both tasks show it"), |view| {
        ["a", "b"].iter().all(|task| match case.expected() {
            None => view.held(task) == Some(0.0),
            Some(reason) => {
                view.held(task).is_none() && view.task(task)["lock"]["unknown"]["reason"] == reason
            }
        })
    });
}

/// Whoever writes finds the server in the same way, and speaks TLS to it.
fn switch(papers: &Papers, form: &str) {
    let file = papers.folder.path().join("lockwatch.yml");
    fs::write(&file, config(papers, form, Case::Right)).unwrap();
    let mut command = program();
    command.args(["want", "a", "--user", "anna", "on", "--config.file"]).arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Restarts a member with this certificate; clients must show one, if `wants` says so.
fn restart(member: &mut Member, files: &(PathBuf, PathBuf), papers: &Papers, wants: bool) {
    let mut tls = arguments(&papers.ca, (&files.0, &files.1));
    if wants {
        tls.extend(["--tls-auth-clients".to_owned(), "yes".to_owned()]);
    }
    member.server.restart_with_tls(tls);
}

fn judge_all(papers: &Papers, form: &str, members: &mut [Member]) {
    switch(papers, form);
    for case in [Case::Right, Case::WrongAuthority, Case::WrongName] {
        judge(papers, form, case);
    }
    let old = papers.put("old", &papers.authority.sign(&["127.0.0.1"], Life::Over));
    for member in &mut *members {
        restart(member, &old, papers, false);
    }
    judge(papers, form, Case::Expired);
    for member in &mut *members {
        restart(member, &papers.server, papers, true);
    }
    judge(papers, form, Case::NoCertificate);
    for member in members {
        no_plaintext(&member.requests());
    }
}

#[test]
fn sentinels_and_the_servers_that_they_name() {
    let papers = Papers::new();
    let servers = Options { tls: papers.arguments(), ..Options::default() };
    let options = SentinelOptions { servers, ..SentinelOptions::default() };
    let test = "tls::found::sentinels_and_the_servers_that_they_name";
    let Some(mut sentinels) = Sentinels::start(test, &options) else { return };
    let nodes = sentinels.addresses().join("\", \"");
    let form = format!("sentinel: {{master: {MASTER}, nodes: [\"{nodes}\"]}}");
    judge_all(&papers, &form, &mut sentinels.members);
}

#[test]
fn a_master_and_its_replica_without_sentinel() {
    let papers = Papers::new();
    let options = Options { tls: papers.arguments(), ..Options::default() };
    let test = "tls::found::a_master_and_its_replica_without_sentinel";
    let Some(mut replicated) = Replicated::start(test, 1, &options) else { return };
    let nodes: Vec<String> = replicated
        .members
        .iter()
        .map(|member| format!("\"rediss://{}\"", member.announced()))
        .collect();
    let form = format!("nodes: [{}]", nodes.join(", "));
    judge_all(&papers, &form, &mut replicated.members);
}

#[test]
fn the_nodes_of_a_cluster() {
    let papers = Papers::new();
    let options = Options { tls: papers.arguments(), ..Options::default() };
    let test = "tls::found::the_nodes_of_a_cluster";
    let Some(mut cluster) = Cluster::start(test, 0, &options) else { return };
    let nodes: Vec<String> =
        cluster.addresses().iter().map(|at| format!("\"rediss://{at}\"")).collect();
    let form = format!("cluster: {{nodes: [{}]}}", nodes.join(", "));
    judge_all(&papers, &form, &mut cluster.members);
}

/// A server is reached at another address than it announces, and its certificate has the name that
/// it announces.
#[test]
fn the_announced_name_is_checked_where_an_address_is_mapped() {
    let papers = Papers::new();
    let options = Options { tls: papers.arguments(), ..Options::default() };
    let test = "tls::found::the_announced_name_is_checked_where_an_address_is_mapped";
    let Some(mut cluster) = Cluster::start(test, 0, &options) else { return };
    let named = |name: &str| papers.authority.sign(&[name], Life::Now);
    let mut map = Vec::new();
    for (number, member) in cluster.members.iter_mut().enumerate() {
        let name = format!("redis-{number}.example");
        for set in
            [["cluster-announce-hostname", &name], ["cluster-preferred-endpoint-type", "hostname"]]
        {
            assert_eq!(member.server.cli(&["config", "set", set[0], set[1]]), "OK");
        }
        let (cert, key) = papers.put(&name, &named(&name));
        let file = |path: &Path| path.display().to_string();
        let set = ["config", "set", "tls-cert-file", &file(&cert), "tls-key-file", &file(&key)];
        assert_eq!(member.server.cli(&set), "OK");
        map.push(format!("\"{name}:{}\": \"{}\"", member.port, member.announced()));
    }
    let nodes = cluster.addresses().join("\", \"");
    let map = map.join(", ");
    let form = format!("cluster: {{nodes: [\"{nodes}\"], announce_map: {{{map}}}}}");
    judge(&papers, &form, Case::Right);
    for member in &cluster.members {
        no_plaintext(&member.requests());
    }
}
