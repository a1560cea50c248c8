//! Which web files are accepted and which are refused, as the reference does; and what is said of
//! those that are refused.

use std::fs;

use lockwatch::config::web::BLOCKS;
use lockwatch::web::{Web, check};

use super::{Folder, TLS, users};
use crate::support::agent::program;
use crate::support::certificates::{Life, Pair};

/// A hash of the reference's own documentation.
const HASH: &str = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG";

/// Files, each with what must be said of it; nothing: it is accepted.
fn cases() -> Vec<(String, Option<&'static str>)> {
    let tls = |fields: &str| {
        let lines: String = fields.lines().map(|line| format!("  {line}\n")).collect();
        format!("{TLS}{lines}")
    };
    let no_http_2 = "http_server_config: {http2: false}\n";
    let with = |text: &str, more: &str| format!("{text}{more}");
    let good = |text: String| (text, None);
    let bad = |text: String, said| (text, Some(said));
    let auth = |word: &str| tls(&format!("client_auth_type: {word}"));
    let mutual = tls("client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: ca.crt");
    vec![
        good(String::new()),
        good("{}".to_owned()),
        good(
            "tls_server_config:\nbasic_auth_users:\nrate_limit:\nhttp_server_config:\n".to_owned(),
        ),
        bad("just words".to_owned(), "1:1: is text; write a block"),
        bad("tls_server_config: {cert_filse: a}".to_owned(), "did you mean `cert_file`?"),
        bad("tls_sever_config: {}".to_owned(), "did you mean `tls_server_config`?"),
        bad(format!("{TLS}{TLS}"), "duplicate entry"),
        // Certificate and key.
        good(TLS.to_owned()),
        bad(
            "tls_server_config: {cert_file: '', key_file: server.key}".to_owned(),
            "has no `cert_file`",
        ),
        bad("tls_server_config: {cert: '', key_file: server.key}".to_owned(), "has no `cert_file`"),
        bad("tls_server_config: {cert_file: server.crt}".to_owned(), "has no `key_file`"),
        bad("tls_server_config: {cert_file: server.crt, key: ''}".to_owned(), "has no `key_file`"),
        bad("tls_server_config: {client_auth_type: NoClientCert}".to_owned(), "has no `cert_file`"),
        bad(
            "tls_server_config: {cert_file: none, key_file: server.key}".to_owned(),
            "tls_server_config.cert_file: `cert_file` ",
        ),
        bad(
            "tls_server_config: {cert_file: server.crt, key_file: none}".to_owned(),
            "does not exist",
        ),
        bad(
            "tls_server_config: {cert_file: server.key, key_file: server.key}".to_owned(),
            "has no certificate in PEM format",
        ),
        bad(
            "tls_server_config: {cert_file: server.crt, key_file: server.crt}".to_owned(),
            "has no private key in PEM format",
        ),
        bad(
            "tls_server_config: {cert_file: server.crt, key_file: other.key}".to_owned(),
            "does not belong to",
        ),
        bad(
            "tls_server_config: {cert_file: half.crt, key_file: server.key}".to_owned(),
            "damaged, or only half written",
        ),
        good("tls_server_config: {min_version: TLS13}".to_owned()),
        // Clients.
        good(auth("NoClientCert")),
        good(auth("''")),
        good(auth("RequestClientCert")),
        good(auth("RequireAnyClientCert")),
        good(auth("RequireClientCert")),
        good(auth("VerifyClientCertIfGiven")),
        good(auth("RequireAndVerifyClientCert")),
        good(mutual.clone()),
        good(with(&mutual, "  client_allowed_sans: [scraper, 10.0.0.7]\n")),
        bad(auth("Always"), "write one of NoClientCert, RequestClientCert, "),
        bad(tls("client_ca_file: ca.crt"), "stands without a `client_auth_type`"),
        bad(
            tls("client_ca_file: none\nclient_auth_type: VerifyClientCertIfGiven"),
            "tls_server_config.client_ca_file: `client_ca_file` ",
        ),
        bad(tls("client_allowed_sans: scraper"), "write a list"),
        // Versions, suites and curves.
        good(tls("min_version: TLS12\nmax_version: TLS13")),
        good(tls("min_version: TLS13")),
        good(tls("max_version: TLS12")),
        bad(tls("min_version: TLS10"), "TLS10 is broken"),
        bad(tls("max_version: TLS11"), "write TLS12 or TLS13"),
        bad(tls("min_version: TLS111"), "\"TLS111\" is no version of TLS"),
        bad(tls("min_version: TLS13\nmax_version: TLS12"), "is above `max_version`"),
        good(tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]")),
        good(tls("cipher_suites:\n- TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n- \
            TLS_AES_128_GCM_SHA256\n- TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")),
        good(tls("cipher_suites: []")),
        good(with(&tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]"), no_http_2)),
        bad(
            tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]"),
            "lacks the suite that HTTP/2 requires",
        ),
        bad(
            tls("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA2048]"),
            "did you mean TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256?",
        ),
        bad(
            tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"),
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA is not spoken here",
        ),
        good(tls("prefer_server_cipher_suites: false")),
        good(tls("prefer_server_cipher_suites: no")),
        bad(tls("prefer_server_cipher_suites: 1"), "write true or false"),
        good(tls("curve_preferences: [CurveP256, X25519, CurveP384]")),
        bad(tls("curve_preferences: [CurveP521]"), "CurveP521 is not spoken here"),
        bad(tls("curve_preferences: [CurveP257]"), "\"CurveP257\" is no curve"),
        // HTTP.
        good("http_server_config: {http2: true}".to_owned()),
        bad("http_server_config: {http3: true}".to_owned(), "did you mean `http2`?"),
        good(
            "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    \
            Strict-Transport-Security: max-age=31536000\n    X-Content-Type-Options: nosniff\n    \
            X-XSS-Protection: 1\n    Content-Security-Policy: \"default-src 'self'\"\n"
                .to_owned(),
        ),
        good("http_server_config: {headers: {X-Frame-Options: sameorigin}}".to_owned()),
        bad(
            "http_server_config: {headers: {X-Frame-Options: ''}}".to_owned(),
            "deny or sameorigin",
        ),
        bad(
            "http_server_config: {headers: {X-Frame-Options: foo}}".to_owned(),
            "deny or sameorigin",
        ),
        bad("http_server_config: {headers: {X-Content-Type-Options: sniff}}".to_owned(), "nosniff"),
        bad(
            "http_server_config: {headers: {Content-Type: foo}}".to_owned(),
            "is not a known field",
        ),
        bad(
            "http_server_config: {headers: {x-frame-options: deny}}".to_owned(),
            "did you mean `X-Frame-Options`?",
        ),
        // Users.
        good(format!("basic_auth_users: {{a: {HASH}, 7: {HASH}}}")),
        good(format!("{TLS}basic_auth_users: {{a: {}}}", HASH.replacen("$2y$10", "$2b$18", 1))),
        bad("basic_auth_users: {a: hunter2}".to_owned(), "is not a bcrypt hash"),
        bad("basic_auth_users: [a]".to_owned(), "is a list; write a block"),
        bad(format!("basic_auth_users: {{a: {}}}", HASH.replacen("10", "31", 1)), "of cost 31"),
        bad(format!("basic_auth_users: {{a: {}}}", HASH.replacen("10", "03", 1)), "of cost 3"),
        // The rate limit.
        good("rate_limit: {interval: 1s, burst: 20}".to_owned()),
        good("rate_limit: {interval: 0, burst: 0}".to_owned()),
        good("rate_limit: {interval: 1m30s}".to_owned()),
        bad("rate_limit: {interval: 1 second}".to_owned(), "is not a duration"),
        bad("rate_limit: {interval: 5}".to_owned(), "has no unit"),
        bad("rate_limit: {burst: many}".to_owned(), "is not a whole number"),
        bad("rate_limit: {interval: 1s, burst: -1}".to_owned(), "is not a whole number"),
        bad("rate_limit: {rate: 5}".to_owned(), "is not a known field"),
    ]
}

fn folder() -> Folder {
    let folder = Folder::new();
    let other: Pair = folder.authority.sign(&["other"], Life::Now);
    folder.put("other.key", &other.key);
    let whole = fs::read_to_string(folder.path("server.crt")).unwrap();
    folder.put("half.crt", &whole[..whole.len() / 2]);
    folder
}

#[test]
fn files_are_accepted_and_refused_as_the_reference_does() {
    let folder = folder();
    let mut count = 0;
    for (text, refused) in cases() {
        let found = check(&folder.web(&text)).map_err(|mistakes| mistakes.to_string());
        match (refused, found) {
            (None, Ok(_)) => {}
            (Some(said), Err(message)) => {
                assert!(message.contains(said), "of\n{text}\nis said\n{message}\nand not {said}");
                assert!(
                    !message.contains("hunter2") && !message.contains("BEGIN PRIVATE"),
                    "{message}"
                );
            }
            (expected, found) => panic!("{text}\nexpected {expected:?}, found {found:?}"),
        }
        count += 1;
    }
    assert!(count >= 40, "{count} files");
}

#[test]
fn certificates_may_stand_in_the_file_and_paths_begin_beside_it() {
    let folder = folder();
    let inline = |name: &str| {
        let text = fs::read_to_string(folder.path(name)).unwrap();
        text.lines().map(|line| format!("    {line}\n")).collect::<String>()
    };
    let (cert, key, ca) = (inline("server.crt"), inline("server.key"), inline("ca.crt"));
    let text = format!(
        "tls_server_config:\n  cert: |\n{cert}  key: |\n{key}  client_ca: |\n{ca}  \
         client_auth_type: RequireAndVerifyClientCert\n"
    );
    assert_eq!(check(&folder.web(&text)).unwrap().warnings, ["it asks for neither"; 0]);
    let broken = text.replacen("-----BEGIN PRIVATE KEY-----", "-----BEGIN SOMETHING-----", 1);
    let message = check(&folder.web(&broken)).unwrap_err().to_string();
    assert!(message.contains("tls_server_config.key: `key` "), "{message}");
    let secret = key.lines().nth(2).unwrap().trim();
    assert!(!message.contains(secret), "{message}");
}

#[test]
fn all_mistakes_are_reported_at_once_each_with_its_place() {
    let folder = folder();
    let text = "tls_server_config:\n  cert_file: none.crt\n  key_file: server.key\n  \
        cipher_suits: []\nbasic_auth_users:\n  a: hunter2\n  b: hunter2\nrate_limit:\n  \
        interval: 5\nhttp_server_config:\n  headers: {X-Frame-Options: x}\n";
    let message = check(&folder.web(text)).unwrap_err();
    let lines: Vec<_> =
        message.mistakes().iter().map(|mistake| mistake.position.map(|at| at.line)).collect();
    assert_eq!(lines, [2, 4, 6, 7, 9, 11].map(Some), "{message}");
    assert!(!message.to_string().contains("hunter2"), "{message}");
}

#[test]
fn what_can_hardly_be_meant_is_warned_of() {
    let folder = folder();
    for (text, said) in [
        (String::new(), "neither TLS nor a login"),
        (users(&["a"]), "plain text"),
        ("rate_limit: {interval: 1s}".to_owned(), "refuses every request"),
        ("tls_server_config: {min_version: TLS13}".to_owned(), "served without TLS"),
        (format!("{TLS}  client_auth_type: RequireAnyClientCert"), "signed by anybody"),
        (format!("{TLS}  client_allowed_sans: [a]"), "has no effect"),
        (format!("{TLS}  client_auth_type: RequireAndVerifyClientCert"), "every public authority"),
    ] {
        let warnings = check(&folder.web(&text)).unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning.contains(said)), "{text}: {warnings:?}");
    }
    let warnings = check(&folder.web(&format!("{TLS}{}", users(&["a"])))).unwrap().warnings;
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn the_documentation_names_every_field() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/web.md")).unwrap();
    for field in BLOCKS.iter().flat_map(|block| block.fields) {
        assert!(text.contains(field), "docs/web.md does not name {field}");
    }
}

#[test]
fn a_file_that_does_not_exist_is_reported() {
    let folder = Folder::new();
    let message = Web::load(&folder.path("none.yml"), false).unwrap_err().to_string();
    assert!(message.ends_with("none.yml: does not exist"), "{message}");
}

#[test]
fn the_program_refuses_a_wrong_file_and_checks_one_on_command() {
    let folder = folder();
    let config = folder.put(
        "lockwatch.yml",
        "redis: {main: {url: 'redis://127.0.0.1:1/0'}}\ntasks: [{name: a, lock: {key: a}}]\n",
    );
    for command in [&["check-config"][..], &["--config.check"], &[]] {
        let run = |web: &str| {
            let mut program = program();
            program.args(command).arg("--config.file").arg(&config);
            program.arg("--web.config.file").arg(folder.web(web));
            program.output().unwrap()
        };
        let refused = run("basic_auth_users: {a: hunter2}");
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{command:?}: {message}");
        assert!(
            message.contains("web.yml:1:")
                && message.contains("basic_auth_users.a: is not a bcrypt")
        );
        assert!(!message.contains("hunter2"), "{message}");
        if !command.is_empty() {
            let checked = run(TLS);
            assert!(checked.status.success(), "{checked:?}");
        }
    }
}
