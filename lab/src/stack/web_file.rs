//! What a web file puts before all that an agent serves: a login, and TLS.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use lockwatch::http::client;
use tempfile::TempDir;

use super::certificate::Certificate;

/// The maximum size of what says whether it is ready.
pub(super) const READY_MAX: usize = 64 * 1024;
/// The password of each user.
const PASSWORD: &str = "page-pw";
/// Its bcrypt hash, of the lowest cost.
const HASH: &str = "$2y$04$lockwatchlockwatchloceNU2GPpVgZzP/ncQMX58gVaXQWLna5Se";
/// Those that may log in.
const USERS: [&str; 2] = ["anna", "bert"];
const FILE: &str = "web.yml";
/// The login of the first user, for commands.
const LOGIN_FILE: &str = "login";

/// A web file with what it names, in a folder of its own, for an agent on 127.0.0.1. The users are
/// `anna` and `bert`.
#[derive(Debug)]
pub struct WebFile {
    folder: TempDir,
    certificate: Option<Certificate>,
}

impl WebFile {
    /// Asks for a login.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn with_login() -> anyhow::Result<WebFile> {
        WebFile::new(TempDir::new()?, None)
    }

    /// Asks for a login, and speaks TLS only.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn with_login_and_tls() -> anyhow::Result<WebFile> {
        let folder = TempDir::new()?;
        let certificate = Certificate::issue(IpAddr::V4(Ipv4Addr::LOCALHOST), folder.path())?;
        WebFile::new(folder, Some(certificate))
    }

    fn new(folder: TempDir, certificate: Option<Certificate>) -> anyhow::Result<WebFile> {
        let users = USERS.map(|user| format!("  {user}: {HASH}\n")).concat();
        let tls = certificate.as_ref().map(|Certificate { certificate, key, .. }| {
            format!(
                "tls_server_config: {{cert_file: \"{}\", key_file: \"{}\"}}\n",
                certificate.display(),
                key.display()
            )
        });
        let text = format!("{}basic_auth_users:\n{users}", tls.unwrap_or_default());
        let web_file = WebFile { folder, certificate };
        std::fs::write(web_file.path(), text)?;
        std::fs::write(web_file.folder.path().join(LOGIN_FILE), login(USERS[0]))?;
        Ok(web_file)
    }

    /// The web file.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// The certificate of the authority, and a file with the login of one user.
    pub(super) fn login_files(&self) -> Option<[PathBuf; 2]> {
        let authority = self.certificate.as_ref()?.authority.clone();
        Some([authority, self.folder.path().join(LOGIN_FILE)])
    }

    /// How the agent at this address is asked through it.
    pub(super) fn way_to(&self, address: SocketAddr) -> client::Server {
        let authority = self.certificate.as_ref().map(|files| files.authority.clone());
        client::Server {
            url: self.url(&address.to_string()),
            ca_file: authority,
            login: client::Login::password(&login(USERS[0]))
                .map(|login| (login, self.folder.path().join(LOGIN_FILE))),
            body_max: READY_MAX,
            ..client::Server::default()
        }
    }

    /// The URL of a path of the agent at this address, with this user's login in it.
    pub(super) fn url_for(&self, user: &str, address: SocketAddr, path: &str) -> String {
        self.url(&format!("{}@{address}{path}", login(user)))
    }

    pub(super) fn url(&self, rest: &str) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{rest}")
    }
}

fn login(user: &str) -> String {
    format!("{user}:{PASSWORD}")
}
