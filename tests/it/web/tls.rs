//! TLS of the pages, with real clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tokio::io::AsyncReadExt as _;

use super::{Client, Folder, TLS, login, serve, serve_with, users};
use crate::support::PATIENCE;
use crate::support::certificates::{Authority, Life, Pair};

const MUTUAL: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_output_is_served_over_tls_with_a_login() {
    let folder = Folder::new();
    let served = serve(&folder, &format!("{TLS}{}", users(&["ann"]))).await;
    let client = folder.client(served.server.address);
    let ann = login("ann", "ann-pw");
    for (path, has) in [
        ("/metrics", "lockwatch_task_state_rank"),
        ("/", "<title>"),
        ("/tasks/outbound", "outbound"),
        ("/app.js", "\"use strict\""),
        ("/badge/outbound.svg", "<svg"),
        ("/api/v1/tasks", "outbound"),
        ("/-/healthy", "healthy"),
    ] {
        let reply = client.ask(path, &ann).await.unwrap();
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.body.contains(has), "{path}: {}", reply.body);
        let refused = client.ask(path, "").await.unwrap();
        assert_eq!(refused.status, 401, "{path} without a login");
        assert!(refused.head.contains("www-authenticate: basic"), "{}", refused.head);
        assert!(!refused.body.contains(has) || path == "/-/healthy", "{path}: {}", refused.body);
    }
    let first = tokio::task::spawn_blocking(move || {
        let mut stream = client.connect().unwrap();
        write!(stream, "GET /live HTTP/1.1\r\nHost: test\r\n{ann}\r\n").unwrap();
        let mut bytes = [0; 512];
        let length = stream.read(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    });
    let first = first.await.unwrap();
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("text/event-stream"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_to_the_tls_port_is_referred_to_https() {
    let folder = Folder::new();
    let served = serve(&folder, TLS).await;
    let answer = served.server.ask("GET", "/metrics", "").await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.text(), "This port speaks TLS: use https:// instead of http://.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_certificates_of_the_authority_with_an_allowed_name_are_let_in() {
    let folder = Folder::new();
    let sans = "  client_allowed_sans: [scraper.example.com, 10.0.0.7]\n";
    let served = serve(&folder, &format!("{TLS}{MUTUAL}{sans}")).await;
    let client = folder.client(served.server.address);
    let sign = |name: &str, life| folder.authority.sign(&[name], life);
    for name in ["scraper.example.com", "10.0.0.7"] {
        let reply = client.with(sign(name, Life::Now)).ask("/metrics", "").await;
        assert_eq!(Client::status_of(reply), 200, "{name}");
    }
    let refused: [(&str, Option<Pair>); 6] = [
        ("no certificate", None),
        ("another name", Some(sign("other.example.com", Life::Now))),
        ("part of the name", Some(sign("example.com", Life::Now))),
        ("expired", Some(sign("scraper.example.com", Life::Over))),
        ("signed by itself", Some(Pair::self_signed(&["scraper.example.com"], false))),
        (
            "of another authority",
            Some(Authority::new("another").sign(&["scraper.example.com"], Life::Now)),
        ),
    ];
    for (what, own) in refused {
        let client = Client { own, ..client.clone() };
        assert!(client.ask("/metrics", "").await.is_err(), "{what}");
        assert!(client.ask("/-/healthy", "").await.is_err(), "{what}: health");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_policy_asks_for_what_its_name_says() {
    let folder = Folder::new();
    // None, one of the authority, and one of nobody.
    for (policy, let_in) in [
        ("NoClientCert", [true, true, true]),
        ("RequestClientCert", [true, true, true]),
        ("RequireAnyClientCert", [false, true, true]),
        ("VerifyClientCertIfGiven", [true, true, false]),
        ("RequireAndVerifyClientCert", [false, true, false]),
    ] {
        let ca = if policy == "NoClientCert" { "" } else { "  client_ca_file: ca.crt\n" };
        let text = format!("{TLS}  client_auth_type: {policy}\n{ca}");
        let served = serve(&folder, &text).await;
        let client = folder.client(served.server.address);
        let own = [
            None,
            Some(folder.authority.sign(&["a"], Life::Now)),
            Some(Pair::self_signed(&["a"], false)),
        ];
        for (own, let_in) in own.into_iter().zip(let_in) {
            let shown = own.is_some();
            let reply = Client { own, ..client.clone() }.ask("/-/healthy", "").await;
            assert_eq!(reply.is_ok(), let_in, "{policy}, certificate: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_suites_and_curves_are_those_of_the_file() {
    let folder = Folder::new();
    let connected = async |text: &str, versions| {
        let served = serve(&folder, &format!("{TLS}{text}")).await;
        let client = Client { versions, ..folder.client(served.server.address) };
        let spoken = tokio::task::spawn_blocking(move || {
            let stream = client.connect().ok()?;
            let suite = stream.conn.negotiated_cipher_suite()?.suite();
            let group = stream.conn.negotiated_key_exchange_group()?.name();
            Some(format!("{suite:?} {group:?}"))
        });
        spoken.await.unwrap()
    };
    static OLD: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    static NEW: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    let (old, new) = (OLD.as_slice(), NEW.as_slice());
    assert!(connected("", old).await.is_some() && connected("", new).await.is_some());
    assert_eq!(connected("  min_version: TLS13\n", old).await, None);
    assert_eq!(connected("  max_version: TLS12\n", new).await, None);
    let suite = "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n  \
        curve_preferences: [CurveP384]\n";
    let spoken = connected(suite, old).await;
    let expected = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 secp384r1";
    assert_eq!(spoken.as_deref(), Some(expected));
    let spoken = connected(suite, new).await.unwrap();
    assert!(spoken.starts_with("TLS13_") && spoken.ends_with("secp384r1"), "{spoken}");
    let new_only = "  cipher_suites: [TLS_AES_128_GCM_SHA256]\nhttp_server_config: {http2: no}\n";
    assert_eq!(connected(new_only, old).await, None, "no suite of TLS 1.2 is left");
    assert!(connected(new_only, new).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_begins_keeps_nobody_waiting() {
    let folder = Folder::new();
    let served = serve(&folder, TLS).await;
    let _silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(served.server.address).unwrap()).collect();
    let mut noise = served.server.connect(std::net::Ipv4Addr::LOCALHOST).await;
    tokio::io::AsyncWriteExt::write_all(&mut noise, &[0x16, 3, 1, 0xff, 0xff]).await.unwrap();
    let reply = folder.client(served.server.address).ask("/metrics", "").await;
    assert_eq!(Client::status_of(reply), 200);
    // What is no handshake is closed in the end.
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, noise.read_to_end(&mut rest)).await;
    assert!(closed.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn health_needs_no_login_by_choice_but_still_a_certificate() {
    let folder = Folder::new();
    let text = format!("{TLS}{MUTUAL}{}", users(&["ann"]));
    let served = serve_with(&folder, &text, true).await;
    let client = folder.client(served.server.address);
    let own = client.with(folder.authority.sign(&["a"], Life::Now));
    for (path, status) in
        [("/-/healthy", 200), ("/-/ready", 200), ("/metrics", 401), ("/-/reload", 401)]
    {
        assert_eq!(Client::status_of(own.ask(path, "").await), status, "{path}");
        assert!(client.ask(path, "").await.is_err(), "{path} without a certificate");
    }
}
