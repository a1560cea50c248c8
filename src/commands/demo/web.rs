//! Where the demo's agent listens, what is before its pages, and how the demo itself comes in.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use clap::ValueHint;

use crate::commands::ask::{AGENT, Access, AgentArguments};

/// Where and how the agent of the demo serves.
#[derive(Clone, Debug, clap::Args)]
pub struct WebArguments {
    /// Where the agent shall listen; port 0: any free port
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Web file of the agent: TLS, logins, headers; the flags --agent.* say how the demo comes in
    #[arg(long = "web.config.file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub web_config_file: Option<PathBuf>,
    /// Under which URL the demo asks its agent, if the certificate has another name [default: the
    /// agent's address]
    #[arg(long = "agent.url", value_name = "URL", value_hint = ValueHint::Url)]
    pub agent_url: Option<String>,
    /// How the demo comes in.
    #[command(flatten)]
    pub access: Access<AGENT>,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub struct Reach {
    pub(super) listen: SocketAddr,
    pub(super) web_file: Option<PathBuf>,
    /// Whether users can log in, so that they may flip their switch on the page.
    pub(super) has_logins: bool,
    speaks_tls: bool,
    url: Option<String>,
    access: Access<AGENT>,
}

impl Reach {
    /// Reads the web file.
    ///
    /// # Errors
    /// All its mistakes at once; or a URL whose port nobody can know.
    pub fn new(arguments: &WebArguments) -> anyhow::Result<Reach> {
        let WebArguments { listen, web_config_file, agent_url, access } = arguments.clone();
        if agent_url.is_some() && listen.port() == 0 {
            bail!(
                "--agent.url needs a port that is known before: give the same one to \
                 --web.listen-address, as in 127.0.0.1:10379"
            );
        }
        let web = web_config_file.as_deref().map(crate::web::check).transpose()?;
        Ok(Reach {
            listen,
            web_file: web_config_file,
            has_logins: web.as_ref().is_some_and(|web| !web.users.is_empty()),
            speaks_tls: web.as_ref().is_some_and(|web| web.tls.is_some()),
            url: agent_url,
            access,
        })
    }

    /// How the agent is asked that listens on `address`.
    pub(super) fn arguments(&self, address: SocketAddr) -> AgentArguments {
        let scheme = if self.speaks_tls { "https" } else { "http" };
        let agent_url = self.url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        AgentArguments { agent_url, access: self.access.clone() }
    }
}
