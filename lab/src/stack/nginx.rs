//! A real nginx before other parts, as companies have it before theirs.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::certificate::Certificate;
use super::port::free_address;
use super::process::Process;
use super::program::Program;

const LOGIN: &str = "anna:nginx-pw";
const TOKEN: &str = "nginx-token";
/// Where everybody is sent who is not logged in at the page of logins.
const LOGIN_PAGE: &str = "/sign-in";

/// What nginx asks for before it passes a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A user and a password.
    Login,
    /// A bearer token.
    Token,
    /// A client's certificate.
    Certificate,
    /// The header `X-Scope-OrgID: ops`.
    Tenant,
    /// A session of a browser: it redirects to a page where one logs in.
    Session,
    /// Nothing; it answers all with a page of its own.
    Page,
}

impl Way {
    const ALL: [Way; 6] =
        [Way::Login, Way::Token, Way::Certificate, Way::Tenant, Way::Session, Way::Page];

    /// The folder below which it is asked for.
    fn folder(self) -> &'static str {
        match self {
            Way::Login => "login",
            Way::Token => "token",
            Way::Certificate => "certificate",
            Way::Tenant => "tenant",
            Way::Session => "session",
            Way::Page => "page",
        }
    }

    /// The directives that ask for it.
    fn directives(self, folder: &Path) -> String {
        let unless = |variable: &str, value: &str, otherwise: &str| {
            format!("if ({variable} != \"{value}\") {{ {otherwise} }}")
        };
        match self {
            Way::Login => format!(
                "auth_basic metrics; auth_basic_user_file {};",
                folder.join("users").display()
            ),
            Way::Token => unless("$http_authorization", &format!("Bearer {TOKEN}"), "return 401;"),
            Way::Certificate => unless("$ssl_client_verify", "SUCCESS", "return 403;"),
            Way::Tenant => unless("$http_x_scope_orgid", "ops", "return 401 \"no org id\";"),
            Way::Session => unless("$cookie_session", "1", &format!("return 302 {LOGIN_PAGE};")),
            Way::Page => "default_type text/html; return 200 \"<html>welcome</html>\";".to_owned(),
        }
    }
}

/// A running nginx, which speaks TLS.
#[derive(Debug)]
pub struct Nginx {
    _process: Process,
    address: SocketAddr,
    folder: TempDir,
    certificate: Certificate,
}

impl Nginx {
    /// Starts one that passes what is asked below each of these names on to its part.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(parts: &[(&str, SocketAddr)]) -> anyhow::Result<Nginx> {
        let (address, folder) = (free_address()?, TempDir::new()?);
        let certificate = Certificate::issue(address.ip(), folder.path())?;
        let (user, password) = LOGIN.split_once(':').context("no login")?;
        std::fs::write(folder.path().join("users"), format!("{user}:{{PLAIN}}{password}\n"))?;
        std::fs::write(folder.path().join("login"), LOGIN)?;
        std::fs::write(folder.path().join("token"), TOKEN)?;
        let config = folder.path().join("nginx.conf");
        std::fs::write(&config, configuration(address, folder.path(), &certificate, parts))?;
        let mut command = Command::new(Program::Nginx.find()?);
        command.arg("-p").arg(folder.path()).arg("-c").arg(&config);
        let mut process = Process::start(command, folder.path().join("nginx.log"))?;
        process.ready(async || TcpStream::connect(address).await.is_ok()).await.context("nginx")?;
        Ok(Nginx { _process: process, address, folder, certificate })
    }

    /// The URL of a part for those who come this way.
    pub fn url(&self, way: Way, part: &str) -> String {
        format!("https://{}/{}/{part}", self.address, way.folder())
    }

    /// A file with a user and a password.
    pub fn login_file(&self) -> PathBuf {
        self.folder.path().join("login")
    }

    /// A file with a bearer token.
    pub fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// The certificate of the authority.
    pub fn ca_file(&self) -> PathBuf {
        self.certificate.authority.clone()
    }

    /// A client's certificate, and its key.
    pub fn client_files(&self) -> [PathBuf; 2] {
        [self.certificate.certificate.clone(), self.certificate.key.clone()]
    }
}

fn configuration(
    address: SocketAddr,
    folder: &Path,
    certificate: &Certificate,
    parts: &[(&str, SocketAddr)],
) -> String {
    let home = folder.display();
    let mut text = format!(
        "daemon off;\nmaster_process off;\npid {home}/pid;\nerror_log {home}/nginx.log;\n\
         events {{ worker_connections 64; }}\nhttp {{\n  access_log off;\n"
    );
    // Writing to a string cannot fail.
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "  {kind}_temp_path {home}/{kind};");
    }
    let _ = writeln!(
        text,
        "  server {{\n    listen {address} ssl;\n    ssl_certificate {};\n    \
         ssl_certificate_key {};\n    ssl_client_certificate {};\n    \
         ssl_verify_client optional;\n    \
         location {LOGIN_PAGE} {{ default_type text/html; return 200 \"<html>sign in</html>\"; }}",
        certificate.certificate.display(),
        certificate.key.display(),
        certificate.authority.display()
    );
    for way in Way::ALL {
        for (part, upstream) in parts {
            let _ = writeln!(
                text,
                "    location /{}/{part}/ {{ {} proxy_pass http://{upstream}/; }}",
                way.folder(),
                way.directives(folder)
            );
        }
    }
    text.push_str("  }\n}\n");
    text
}
