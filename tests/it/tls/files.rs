//! The files of a block `tls`: what is wrong with them is reported, and half-written ones keep
//! those before.

use super::*;

#[tokio::test]
async fn what_is_wrong_with_a_file_names_it_and_its_field() {
    let papers = Papers::new();
    let Some(server) = papers.server("tls::files::what_is_wrong_with_a_file") else { return };
    let client = papers.authority.sign(&["agent"], Life::Now);
    let other = papers.authority.sign(&["agent"], Life::Now);
    let folder = papers.folder.path();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let half = |text: &str| text[..text.len() / 2].to_owned();
    let ca = |ca: PathBuf| TlsFiles { ca_file: Some(ca), ..TlsFiles::default() };
    let own = |cert: PathBuf, key: PathBuf| TlsFiles {
        cert_file: Some(cert),
        key_file: Some(key),
        ..ca(papers.ca.clone())
    };
    let (cert, key) = papers.put("client", &client);
    let (old_cert, _) = papers.put("version-1", &papers.authority.sign_version_1());
    let key_of = |name: &str, kind: &str, head: &str| {
        file(name, &format!("-----BEGIN {kind}-----\n{head}AAAA\n-----END {kind}-----\n"))
    };
    let locked = key_of("locked.key", "ENCRYPTED PRIVATE KEY", "");
    let head = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n";
    let locked_long_ago = key_of("locked-long-ago.key", "RSA PRIVATE KEY", head);
    let of_no_kind = key_of("strange.key", "PRIVATE KEY", "");
    let cases: [(TlsFiles, &str, &str); 13] = [
        (ca(folder.join("no.crt")), "`ca_file`", "no.crt does not exist"),
        (ca(file("empty.crt", "")), "`ca_file`", "empty.crt is empty"),
        (ca(file("half.crt", &half(papers.authority.pem()))), "`ca_file`", "only half written"),
        (ca(file("words.crt", "certificate")), "`ca_file`", "has no certificate in PEM format"),
        (ca(folder.to_owned()), "`ca_file`", "cannot be read"),
        (own(file("half.crt", &half(&client.cert)), key.clone()), "`cert_file`", "half written"),
        (own(cert.clone(), file("half.key", &half(&client.key))), "`key_file`", "half written"),
        (own(cert.clone(), cert.clone()), "`key_file`", "has no private key in PEM format"),
        (
            own(cert.clone(), file("other.key", &other.key)),
            "`key_file`",
            "does not belong to `cert_file`",
        ),
        (own(cert.clone(), locked), "`key_file`", "has a passphrase; write the key without one"),
        (own(cert.clone(), locked_long_ago), "`key_file`", "has a passphrase"),
        (own(cert.clone(), of_no_kind), "`key_file`", "it must be one of RSA with 2048 bits"),
        (own(old_cert, key), "`key_file`", "does not belong to `cert_file`"),
    ];
    for (files, field, words) in cases {
        let tls = TlsConfig { files, server_name: None };
        let failure = refused(&papers.config(server.port, Some(tls))).await;
        assert_eq!(failure.why, Unknown::TlsFiles, "{failure}");
        assert!(failure.detail.contains(field) && failure.detail.contains(words), "{failure}");
        assert!(!failure.detail.contains("BEGIN PRIVATE"), "{failure}");
    }
}

#[tokio::test]
async fn half_written_files_keep_those_before_until_they_are_whole() {
    let papers = Papers::new();
    let test = "tls::files::half_written_files_keep_those_before_until_they_are_whole";
    let Some(server) = papers.server(test) else { return };
    assert_eq!(with_password(&server, &["config", "set", "tls-auth-clients", "yes"]), "OK");
    let first = papers.authority.sign(&["agent"], Life::Now);
    let (cert, key) = papers.put("client", &first);
    let mut tls = papers.trusting(&papers.ca);
    (tls.files.cert_file, tls.files.key_file) = (Some(cert.clone()), Some(key.clone()));
    let config = papers.config(server.port, Some(tls));
    connect(&config).await.unwrap();
    let second = papers.authority.sign(&["agent"], Life::Now);
    let halves = [&second.cert[..second.cert.len() / 2], "", "-----BEGIN CERTIFICATE-----\n"];
    for half in halves {
        fs::write(&cert, half).unwrap();
        connect(&config).await.unwrap();
    }
    // The certificate is new, and the key still the old one.
    fs::write(&cert, &second.cert).unwrap();
    connect(&config).await.unwrap();
    fs::write(&key, &second.key).unwrap();
    connect(&config).await.unwrap();
    fs::remove_file(&papers.ca).unwrap();
    connect(&config).await.unwrap();
    // What is whole counts at once: another authority, which did not sign the server's.
    fs::write(&papers.ca, Authority::new("another").pem()).unwrap();
    let failure = refused(&config).await;
    assert_eq!(failure.why, Unknown::TlsUntrusted, "{failure}");
    fs::write(&papers.ca, papers.authority.pem()).unwrap();
    connect(&config).await.unwrap();
}

#[test]
fn the_check_of_a_configuration_reads_them() {
    use lockwatch::commands::check_config::warnings;
    use lockwatch::config::Config;
    use std::os::unix::fs::PermissionsExt as _;

    let papers = Papers::new();
    let (_, key) = papers.put("client", &papers.authority.sign(&["agent"], Life::Now));
    let mode = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    let text = "redis:\n  main:\n    url: rediss://x\n    tls: {ca_file: ca.crt, cert_file: \
                client.crt, key_file: client.key}\ntasks: [{name: a, lock: {key: a}}]\n";
    let config_of = |text: &str| Config::parse(text, &papers.folder.path().join("x.yml")).unwrap();
    let config = config_of(text);
    mode(0o400);
    assert_eq!(warnings(&config), [""; 0]);
    let command = text.replace("\ntasks", "\n    password_command: [./no-program]\ntasks");
    let [absent] = warnings(&config_of(&command)).try_into().unwrap();
    assert!(absent.contains("no-program does not exist"), "{absent}");
    mode(0o644);
    let [open] = warnings(&config).try_into().unwrap();
    assert!(
        open.starts_with("redis.main.tls: the key file") && open.contains("every user"),
        "{open}"
    );
    fs::remove_file(&papers.ca).unwrap();
    let [gone] = warnings(&config).try_into().unwrap();
    assert!(
        gone.starts_with("redis.main.tls: `ca_file`") && gone.contains("does not exist"),
        "{gone}"
    );
}
