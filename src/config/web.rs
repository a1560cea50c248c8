//! The web file (`--web.config.file`): TLS, logins, headers and a rate limit, in the format that
//! the exporters of Prometheus share.

mod http;
mod tls;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use serde_yaml::{Mapping, Value};

use super::block::{At, Block};
use super::mistake::{ConfigErrors, Mistakes, Reported};
use super::place::Place;
use super::schema::BlockSpec;
use super::{FileError, Secret, read_text, yaml};
use http::Headers;
pub use http::RateLimit;
pub use tls::{ClientAuth, Pem, TlsServer};

/// The blocks of the web file.
pub const BLOCKS: [&BlockSpec; 5] =
    [&TOP, &tls::TLS_SERVER, &http::HTTP_SERVER, &http::HEADERS, &http::RATE_LIMIT];

const TOP: BlockSpec = BlockSpec {
    path: "",
    fields: &["tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"],
    otherwise: &[(
        "tls_config",
        "write `tls_server_config`: this file is about the side that serves",
    )],
};

/// What the web file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// TLS; `None`: plain HTTP.
    pub tls: Option<TlsServer>,
    /// Headers of every response.
    pub headers: Headers,
    /// The users that may log in, each with the bcrypt hash of the password; none: no login.
    pub users: BTreeMap<String, Secret>,
    /// How many requests are answered; `None`: all.
    pub rate_limit: Option<RateLimit>,
    /// What is accepted but can hardly be meant.
    pub warnings: Vec<String>,
}

impl WebConfig {
    /// Parses `text`, read from the file `path`. `unusable` says what is wrong with the
    /// certificates and the key that the file names: a field of `tls_server_config`, and a message.
    ///
    /// # Errors
    /// All mistakes at once, sorted by position.
    pub fn parse(
        text: &str,
        path: &Path,
        unusable: impl FnOnce(&TlsServer) -> Vec<(&'static str, String)>,
    ) -> Result<WebConfig, ConfigErrors> {
        let source = path.display().to_string();
        let document = yaml::parse(text, &source)?;
        let mistakes = Mistakes::default();
        let dir = path.parent().unwrap_or(Path::new(""));
        match read(&document, dir, unusable, &mistakes) {
            Ok(config) if mistakes.is_empty() => Ok(config),
            _ => Err(mistakes.into_errors(&source, text, &[])),
        }
    }

    /// The text of the file `path`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn text(path: &Path) -> Result<String, ConfigErrors> {
        let unreadable = |error: FileError| {
            ConfigErrors::whole(&path.display().to_string(), error.to_string(), None)
        };
        read_text(path).map_err(unreadable)
    }
}

fn read(
    document: &Value,
    dir: &Path,
    unusable: impl FnOnce(&TlsServer) -> Vec<(&'static str, String)>,
    mistakes: &Mistakes,
) -> Result<WebConfig, Reported> {
    let nothing = Value::Mapping(Mapping::new());
    let value = if document.is_null() { &nothing } else { document };
    let top = Block::open(At { value, place: Place::default(), mistakes, store: None }, &TOP)?;
    let http = http::read(&top, &nothing);
    let http_2 = http.as_ref().is_ok_and(|(_, http_2)| *http_2);
    let tls = tls::read(&top, &nothing, dir, http_2);
    if let Ok((Some(tls), _)) = &tls {
        for (field, message) in unusable(tls) {
            mistakes.report(Place::default().field("tls_server_config").field(field), message);
        }
    }
    let users = http::users(&top);
    let rate_limit = http::rate_limit(&top, &nothing);
    let ((headers, _), (tls, tls_warnings)) = (http?, tls?);
    let ((users, user_warnings), (rate_limit, limit_warnings)) = (users?, rate_limit?);
    let mut warnings = [tls_warnings, user_warnings, limit_warnings].concat();
    if tls.is_none() && !users.is_empty() {
        let words = "`basic_auth_users` without `tls_server_config`: passwords cross the network \
                     in plain text";
        warnings.push(words.to_owned());
    }
    if tls.is_none() && users.is_empty() {
        warnings.push(
            "it asks for neither TLS nor a login: all that reach the address read all".to_owned(),
        );
    }
    Ok(WebConfig { tls, headers, users, rate_limit, warnings })
}
