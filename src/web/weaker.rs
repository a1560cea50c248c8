//! Whether a new version of the web file takes off a protection of the one in force.

use crate::config::web::{TlsServer, WebConfig};

/// The protection that `new` lacks and `old` has. Only a restart may take it off: a file that is
/// half written is valid YAML, but says less.
pub fn weaker(old: &WebConfig, new: &WebConfig) -> Option<&'static str> {
    let tls =
        |config: &WebConfig, has: fn(&TlsServer) -> bool| config.tls.as_ref().is_some_and(has);
    let both = |has: fn(&TlsServer) -> bool| (tls(old, has), tls(new, has));
    let protections = [
        ("TLS (`tls_server_config`)", both(|_| true)),
        ("the login (`basic_auth_users`)", (!old.users.is_empty(), !new.users.is_empty())),
        ("the clients' certificates (`client_auth_type`)", both(|tls| tls.client_auth.requires())),
        (
            "the check of the clients' certificates (`client_auth_type`)",
            both(|tls| tls.client_auth.verifies()),
        ),
        ("the clients' authority (`client_ca_file`)", both(|tls| tls.client_ca.is_some())),
        (
            "the clients' names (`client_allowed_sans`)",
            both(|tls| tls.client_allowed_sans.is_some()),
        ),
    ];
    protections.into_iter().find(|(_, (had, has))| *had && !has).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> WebConfig {
        WebConfig::parse(text, Path::new("web.yml"), |_| Vec::new()).unwrap()
    }

    /// Wherever the file is cut, either it is refused or nothing is taken off, or this tells.
    #[test]
    fn a_file_that_is_cut_anywhere_opens_no_door() {
        let whole = "tls_server_config:\n  cert_file: c\n  key_file: k\n  client_ca_file: a\n  \
            client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: [one]\n\
            basic_auth_users:\n  \
            a: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG\n";
        let old = config(whole);
        assert_eq!(weaker(&old, &config(whole)), None);
        let mut parsed = 0;
        for end in 0..whole.len() - 1 {
            let Ok(new) = WebConfig::parse(&whole[..end], Path::new("web.yml"), |_| Vec::new())
            else {
                continue;
            };
            parsed += 1;
            assert!(weaker(&old, &new).is_some(), "{:?}", &whole[..end]);
        }
        assert!(parsed > 5, "{parsed} of the cut files are valid by themselves");
    }

    #[test]
    fn more_protection_is_always_put_in_force() {
        let login = "basic_auth_users:\n  \
            a: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG\n";
        let tls = "tls_server_config: {cert_file: c, key_file: k}\n";
        assert_eq!(weaker(&config(""), &config(login)), None);
        assert_eq!(weaker(&config(login), &config(&format!("{login}{tls}"))), None);
        assert_eq!(weaker(&config(login), &config(tls)), Some("the login (`basic_auth_users`)"));
    }
}
