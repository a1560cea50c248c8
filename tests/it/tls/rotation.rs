//! Certificates that are replaced while the agent runs, on both sides, and commands over TLS.

use super::*;
use crate::support::agent::program;

/// The agent's configuration: a client certificate, and one task.
fn config(papers: &Papers, port: u16, (cert, key): &(PathBuf, PathBuf)) -> String {
    papers.password();
    format!(
        "redis:\n  main:\n    url: \"valkeys://localhost:{port}\"\n    tls: {{ca_file: {:?}, \
         cert_file: {cert:?}, key_file: {key:?}}}\n    password_file: {:?}\n    \
         want: {{password_file: {:?}}}\n    interval: 1s\n\
         tasks:\n  - {{name: outbound, lock: {{key: \"outbound:lock\"}}, \
         wanted: {{hash: users}}, blind_after: 10s, settle: 1s}}\n",
        papers.ca,
        papers.folder.path().join("password"),
        papers.folder.path().join("password"),
    )
}

fn clients(server: &RedisServer) -> Vec<String> {
    let list = with_password(server, &["client", "list"]);
    let named = |line: &&str| line.contains(" name=lockwatch ");
    list.lines()
        .filter(named)
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect()
}

/// Each rotation replaces the server's certificate and the agent's, and ends all connections.
#[test]
fn rotations_of_both_certificates_cost_one_tick_at_most() {
    let papers = Papers::new();
    let test = "tls::rotation::rotations_of_both_certificates_cost_one_tick_at_most";
    let Some(server) = papers.server(test) else { return };
    let rotations: usize =
        std::env::var("ROTATIONS").map_or(10, |count| count.parse().expect("a number"));
    assert_eq!(with_password(&server, &["config", "set", "tls-auth-clients", "yes"]), "OK");
    with_password(&server, &["hset", "outbound:lock", "c0ffee:1", "1"]);
    let proxy = Proxy::start(server.port);
    let client = || papers.authority.sign(&["agent"], Life::Now);
    let files = papers.put("client", &client());
    let agent = Agent::start(&config(&papers, proxy.port, &files));
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("outbound") == Some(1.0));
    let watch = agent.watch();
    for number in 0..rotations {
        let old = clients(&server);
        // A third of them meet the agent between two files, and a third in the middle of one.
        let new = client();
        let written = if number % 3 == 1 { new.cert.len() / 2 } else { new.cert.len() };
        fs::write(&files.0, &new.cert[..written]).unwrap();
        let server_files = papers.put(
            &format!("server-{}", number % 2),
            &papers.authority.sign(&["localhost"], Life::Now),
        );
        certify(&server, &server_files);
        if number % 3 == 0 {
            fs::write(&files.1, &new.key).unwrap();
        }
        with_password(&server, &["client", "kill", "type", "normal"]);
        wait_until(PATIENCE, "it is connected again", || {
            let new = clients(&server);
            new.len() == 1 && new != old
        });
        fs::write(&files.0, &new.cert).unwrap();
        fs::write(&files.1, &new.key).unwrap();
    }
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("outbound") == Some(1.0));
    let (mut blind_since, mut longest) = (None, Duration::ZERO);
    for (at, page) in &watch.stop_timed() {
        match page.of("outbound", "lock_held") {
            Some(_) => blind_since = None,
            None => longest = longest.max(at.duration_since(*blind_since.get_or_insert(*at))),
        }
        assert_ne!(page.verdict("outbound"), "unknown");
    }
    // One tick, and what a busy machine adds.
    assert!(longest < Duration::from_millis(1_900), "{longest:?}\n{}", agent.log());
    for words in ["does not belong to", "only half written"] {
        let reported = agent.log_lines(&["the earlier ones stay in use", words]);
        assert!(!reported.is_empty(), "{words}: {}", agent.log());
    }
    no_plaintext(&proxy.requests());
}

#[test]
fn the_commands_speak_tls_too() {
    let papers = Papers::new();
    let test = "tls::rotation::the_commands_speak_tls_too";
    let Some(server) = papers.server(test) else { return };
    assert_eq!(with_password(&server, &["config", "set", "tls-auth-clients", "yes"]), "OK");
    let proxy = Proxy::start(server.port);
    let files = papers.put("client", &papers.authority.sign(&["agent"], Life::Now));
    let file = papers.folder.path().join("lockwatch.yml");
    fs::write(&file, config(&papers, proxy.port, &files)).unwrap();
    let run = |words: &[&str], more: &[&str]| {
        let mut command = program();
        command.args(words).arg("--config.file").arg(&file).args(more);
        let output = command.stdout(std::process::Stdio::piped()).output().unwrap();
        let reported = [output.stdout.as_slice(), &output.stderr].concat();
        (output.status.success(), String::from_utf8(reported).unwrap())
    };
    let (done, reported) = run(&["want", "outbound", "--user", "anna", "on"], &[]);
    assert!(done, "{reported}");
    assert_eq!(with_password(&server, &["hget", "users", "anna"]), "true");
    let script = "echo \"ran under $LOCKWATCH_TOKEN\"";
    let (done, reported) =
        run(&["guard", "outbound"], &["--restart", "never", "--", "sh", "-c", script]);
    assert!(done && reported.contains("ran under"), "{reported}");
    with_password(
        &server,
        &["hset", "outbound:lock", "285475da-9152-4c83-822a-67ee2f116a79:1", "1"],
    );
    with_password(&server, &["pexpire", "outbound:lock", "3600000"]);
    let (_, reported) = run(&["explain", "--once", "outbound"], &[]);
    assert!(reported.contains("285475da"), "{reported}");
    let path = |path: &Path| path.display().to_string();
    let mut discover = program();
    discover
        .args([
            "discover",
            "--watch",
            "0s",
            "--redis",
            &format!("rediss://127.0.0.1:{}", proxy.port),
        ])
        .args(["--redis.ca-file", &path(&papers.ca), "--redis.server-name", "localhost"])
        .args(["--redis.cert-file", &path(&files.0), "--redis.key-file", &path(&files.1)])
        .args(["--redis.password-file", &path(&papers.folder.path().join("password"))]);
    let output = discover.stdout(std::process::Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let found = lockwatch::config::Config::parse(&printed, Path::new("lockwatch.yml")).unwrap();
    let tls = found.redises[0].tls.as_ref().unwrap();
    assert_eq!(tls.server_name.as_deref(), Some("localhost"));
    assert_eq!(tls.files.ca_file.as_ref(), Some(&papers.ca));
    no_plaintext(&proxy.requests());
}
