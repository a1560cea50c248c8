//! The web file: which are accepted, and what they put before the pages.

mod accepted;
mod changes;
mod clients;
mod logins;
mod switches;
mod tls;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockwatch::http::HttpContext;
use lockwatch::web::Web;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;

use crate::http::{Server, start_as};
use crate::snapshots::{full_task, good_redis, published};
use crate::support::PATIENCE;
use crate::support::certificates::{Authority, Life, Pair};

/// The web file with what it names, in a folder of its own.
pub(crate) struct Folder {
    folder: TempDir,
    pub(crate) authority: Authority,
}

impl Folder {
    /// With a certificate `server.crt`, its key `server.key` and the authority `ca.crt`.
    pub(crate) fn new() -> Folder {
        let (folder, authority) = (TempDir::new().unwrap(), Authority::new("of the pages"));
        let new = Folder { folder, authority };
        new.certify(&["127.0.0.1", "localhost"]);
        new.put("ca.crt", new.authority.pem());
        new
    }

    /// Puts another certificate in place.
    pub(crate) fn certify(&self, names: &[&str]) -> Pair {
        let pair = self.authority.sign(names, Life::Now);
        pair.write(self.folder.path(), "server");
        pair
    }

    pub(crate) fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the web file, and returns where.
    pub(crate) fn web(&self, text: &str) -> PathBuf {
        self.put("web.yml", text)
    }

    /// A client that trusts the authority.
    pub(crate) fn client(&self, address: SocketAddr) -> Client {
        Client {
            address,
            ca: self.authority.pem().to_owned(),
            own: None,
            versions: rustls::ALL_VERSIONS,
        }
    }
}

/// A server with this web file, which is read again and again.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) web: Web,
    _following: AbortOnDropHandle<()>,
}

pub(crate) async fn serve(folder: &Folder, text: &str) -> Served {
    serve_with(folder, text, false).await
}

pub(crate) async fn serve_with(folder: &Folder, text: &str, health_without_login: bool) -> Served {
    let web = Web::load(&folder.web(text), health_without_login).unwrap();
    let first = published(vec![full_task("outbound")], vec![good_redis("main")]);
    let of_context = web.clone();
    let server = start_as(first, |context| HttpContext { web: Some(of_context), ..context }).await;
    let following = AbortOnDropHandle::new(tokio::spawn(web.clone().follow()));
    Served { server, web, _following: following }
}

/// A client with TLS.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) ca: String,
    pub(crate) own: Option<Pair>,
    pub(crate) versions: &'static [&'static rustls::SupportedProtocolVersion],
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        match &self.own {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let certs = CertificateDer::pem_slice_iter(pair.cert.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                let certs = certs.collect::<Result<_, _>>().unwrap();
                config.with_client_auth_cert(certs, key).unwrap()
            }
        }
    }

    /// An open connection after the handshake.
    pub(crate) fn connect(&self) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection =
            ClientConnection::new(Arc::new(self.config()), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// One request; `headers` are whole lines.
    pub(crate) fn try_get(&self, path: &str, headers: &str) -> io::Result<Reply> {
        let mut stream = self.connect()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: test\r\n{headers}\r\n")?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(Reply::of(&bytes))
    }

    /// The same without blocking the test's runtime, which serves as well.
    pub(crate) async fn ask(&self, path: &str, headers: &str) -> io::Result<Reply> {
        let (client, path, headers) = (self.clone(), path.to_owned(), headers.to_owned());
        tokio::task::spawn_blocking(move || client.try_get(&path, &headers)).await.unwrap()
    }

    /// The status of a request that must be answered.
    #[track_caller]
    pub(crate) fn status_of(reply: io::Result<Reply>) -> u16 {
        reply.unwrap_or_else(|error| panic!("not answered: {error}")).status
    }

    pub(crate) fn with(&self, own: Pair) -> Client {
        Client { own: Some(own), ..self.clone() }
    }
}

impl Reply {
    fn of(bytes: &[u8]) -> Reply {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

/// The header of a login, as a whole line.
pub(crate) fn login(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

/// A web file's users: each with the password `<name>-pw`.
pub(crate) fn users(names: &[&str]) -> String {
    let user =
        |name: &&str| format!("  {name}: {}\n", bcrypt::hash(format!("{name}-pw"), 4).unwrap());
    format!("basic_auth_users:\n{}", names.iter().map(user).collect::<String>())
}

pub(crate) const TLS: &str =
    "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
