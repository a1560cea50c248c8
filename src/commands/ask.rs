//! Where the agent is that a command asks, and how to come in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueHint};

use crate::config::{PasswordSource, exposed};
use crate::http::client::{Agent, Answer, Login};

/// Where the commands look for the agent.
pub const DEFAULT_AGENT: &str = "http://127.0.0.1:10379";

/// How to reach an agent.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct AgentArguments {
    /// Where the agent serves; https:// if its web file has TLS
    #[arg(
        long = "agent.url",
        value_name = "URL",
        value_hint = ValueHint::Url,
        default_value = DEFAULT_AGENT
    )]
    pub agent_url: String,
    /// How to come in.
    #[command(flatten)]
    pub access: AgentAccess,
}

/// What an agent asks for that has a web file: its authority, a certificate, a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct AgentAccess {
    /// File with the authorities that may sign the agent's certificate [default: the system's]
    #[arg(long = "agent.ca-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent_ca_file: Option<PathBuf>,
    /// File with the certificate to show to the agent
    #[arg(
        long = "agent.cert-file",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "agent_key_file"
    )]
    pub agent_cert_file: Option<PathBuf>,
    /// File with its private key
    #[arg(
        long = "agent.key-file",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "agent_cert_file"
    )]
    pub agent_key_file: Option<PathBuf>,
    /// File whose first line is user:password for the agent
    #[arg(long = "agent.login-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent_login_file: Option<PathBuf>,
}

impl AgentArguments {
    /// An agent without TLS and without a login.
    pub fn at(url: &str) -> AgentArguments {
        AgentArguments { agent_url: url.to_owned(), access: AgentAccess::default() }
    }

    /// Requests `path`, which is already escaped.
    ///
    /// # Errors
    /// There is no complete response, or the agent lets nobody in with this; text for a person.
    pub async fn get(&self, path: &str, patience: Duration) -> anyhow::Result<Answer> {
        let answer = self.agent()?.get(path, patience).await?;
        match self.turned_away(&answer) {
            Some(words) => {
                bail!("the agent at {}: {words}", crate::text::terminal::safe(&self.agent_url))
            }
            None => Ok(answer),
        }
    }

    /// What is wrong with the modes of the files, if anything.
    pub fn warning(&self) -> Option<String> {
        let login = || exposed(self.access.agent_login_file.as_deref()?, "the login file");
        let key = || exposed(self.access.agent_key_file.as_deref()?, "the key file");
        login().or_else(key)
    }

    /// The flags of another command that asks the same agent.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let file = |file: &Option<PathBuf>| Some(file.as_ref()?.display().to_string());
        let url = (self.agent_url != DEFAULT_AGENT).then(|| self.agent_url.clone());
        let flags = [
            ("--agent.url", url),
            ("--agent.ca-file", file(&self.access.agent_ca_file)),
            ("--agent.cert-file", file(&self.access.agent_cert_file)),
            ("--agent.key-file", file(&self.access.agent_key_file)),
            ("--agent.login-file", file(&self.access.agent_login_file)),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some((flag, value?))).collect()
    }

    fn agent(&self) -> anyhow::Result<Agent> {
        let access = self.access.clone();
        let own = access.agent_cert_file.zip(access.agent_key_file);
        let login = access.agent_login_file.map(login).transpose()?;
        Ok(Agent { url: self.agent_url.clone(), ca_file: access.agent_ca_file, own, login })
    }

    /// Why the agent did not let this command in, if so.
    fn turned_away(&self, answer: &Answer) -> Option<String> {
        let is_plain = self.agent_url.starts_with("http://");
        match (answer.status, &self.access.agent_login_file) {
            (401, None) => Some(
                "it asks for a login: write `user:password` into a file, and name it with \
                 --agent.login-file"
                    .to_owned(),
            ),
            (401, Some(file)) => {
                Some(format!("user or password in --agent.login-file {} are wrong", file.display()))
            }
            (429, _) => Some(
                "it answers 429: its rate limit, or the logins that it checks, leave no room now; \
                 try again"
                    .to_owned(),
            ),
            (400, _) if is_plain && speaks_tls(&answer.body) => {
                Some("it speaks TLS on this port: write https:// instead of http://".to_owned())
            }
            _ => None,
        }
    }
}

/// What lockwatch, Go's servers and nginx answer to plain HTTP where they speak TLS.
fn speaks_tls(body: &[u8]) -> bool {
    let said = String::from_utf8_lossy(body).to_lowercase();
    said.contains("speaks tls") || said.contains("https server") || said.contains("https port")
}

fn login(file: PathBuf) -> anyhow::Result<Login> {
    let shown = file.display().to_string();
    let line = PasswordSource::File(file).stored().context("no file")?;
    let line = line.map_err(|error| {
        anyhow::Error::msg(error.to_string().replace("password file", "login file"))
    })?;
    Login::new(line.expose()).with_context(|| {
        format!("--agent.login-file {shown}: its first line has no colon; write `user:password`")
    })
}
