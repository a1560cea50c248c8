//! Where a server is that a command asks, and how to come in: the agent, Prometheus, Alertmanager.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};

use crate::config::{PasswordSource, exposed};
use crate::http::client::{Answer, Header, Login, Server};

/// Where the commands look for the agent.
pub const DEFAULT_AGENT: &str = "http://127.0.0.1:10379";

/// One whom commands ask.
#[derive(Clone, Copy)]
struct Asked {
    /// In messages.
    name: &'static str,
    /// What its flags begin with.
    flags: &'static str,
    body_max: usize,
}

/// Which row of the table of whom commands ask.
pub const AGENT: usize = 0;
/// Which row of the table of whom commands ask.
pub const PROMETHEUS: usize = 1;
/// Which row of the table of whom commands ask.
pub const ALERTMANAGER: usize = 2;

const ASKED: [Asked; 3] = [
    Asked { name: "the agent", flags: "--agent", body_max: 256 << 20 },
    Asked { name: "Prometheus", flags: "--prometheus", body_max: 64 << 20 },
    Asked { name: "Alertmanager", flags: "--alertmanager", body_max: 64 << 20 },
];

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
    pub access: Access<AGENT>,
}

/// What the server of row `WHO` may ask for: its authority, a certificate, a login, headers. The
/// flags of all are the same but for their prefix, which clap cannot derive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access<const WHO: usize> {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    login_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    headers: Vec<Header>,
}

/// The flags that name a file: what follows the prefix, and the help.
const FILES: [(&str, &str); 5] = [
    ("ca-file", "The authorities that may sign its certificate [default: the system's]"),
    ("cert-file", "The certificate to show to it"),
    ("key-file", "The private key of that certificate"),
    ("login-file", "user:password for it, in the first line"),
    ("token-file", "A bearer token for it, in the first line"),
];

impl<const WHO: usize> Access<WHO> {
    #[allow(clippy::indexing_slicing, reason = "a constant: it would not compile")]
    const ASKED: Asked = ASKED[WHO];

    fn flag(name: &str) -> String {
        // Without the hyphens: clap adds them.
        format!("{}.{name}", Self::ASKED.flags.trim_start_matches('-'))
    }

    /// The server at `url`.
    ///
    /// # Errors
    /// A file with a login or a token cannot be used.
    pub fn server(&self, url: &str) -> anyhow::Result<Server> {
        let Asked { name, flags, body_max } = Self::ASKED;
        let login = match (&self.login_file, &self.token_file) {
            (Some(file), _) => {
                let login = Login::password(&first_line(file, "login file")?).with_context(|| {
                    format!(
                        "{flags}.login-file {}: its first line has no colon; write `user:password`",
                        file.display()
                    )
                })?;
                Some((login, file.clone()))
            }
            (None, Some(file)) => {
                Some((Login::Token(first_line(file, "token file")?), file.clone()))
            }
            (None, None) => None,
        };
        Ok(Server {
            name,
            flags,
            url: url.to_owned(),
            ca_file: self.ca_file.clone(),
            own: self.cert_file.clone().zip(self.key_file.clone()),
            login,
            headers: self.headers.clone(),
            body_max,
        })
    }

    /// What is wrong with the modes of the files, if anything.
    pub fn warning(&self) -> Option<String> {
        let secret = |file: &Option<PathBuf>, what| exposed(file.as_deref()?, what);
        secret(&self.login_file, "the login file")
            .or_else(|| secret(&self.token_file, "the token file"))
            .or_else(|| secret(&self.key_file, "the key file"))
    }

    fn files(&self) -> [&Option<PathBuf>; 5] {
        [&self.ca_file, &self.cert_file, &self.key_file, &self.login_file, &self.token_file]
    }
}

impl<const WHO: usize> Args for Access<WHO> {
    fn augment_args(command: Command) -> Command {
        let file = |(name, help): (&str, &'static str)| {
            let flag = Self::flag(name);
            let arg = Arg::new(flag.clone()).long(flag).value_name("FILE").help(help);
            let arg = arg.value_hint(ValueHint::FilePath).value_parser(value_parser!(PathBuf));
            match name {
                "cert-file" => arg.requires(Self::flag("key-file")),
                "key-file" => arg.requires(Self::flag("cert-file")),
                "token-file" => arg.conflicts_with(Self::flag("login-file")),
                _ => arg,
            }
        };
        let command = command.args(FILES.map(file));
        if WHO == AGENT {
            return command;
        }
        let flag = Self::flag("header");
        let header = Arg::new(flag.clone()).long(flag).value_name("HEADER");
        command.arg(
            header
                .help("A header to send, like 'X-Scope-OrgID: team'; repeatable")
                .action(ArgAction::Append)
                .value_parser(|text: &str| {
                    Header::new(text).ok_or("write it like 'X-Scope-OrgID: team'")
                }),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const WHO: usize> FromArgMatches for Access<WHO> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let [ca_file, cert_file, key_file, login_file, token_file] =
            FILES.map(|(name, _)| matches.get_one::<PathBuf>(&Self::flag(name)).cloned());
        let headers = match WHO {
            AGENT => Vec::new(),
            _ => matches.get_many(&Self::flag("header")).unwrap_or_default().cloned().collect(),
        };
        Ok(Access { ca_file, cert_file, key_file, login_file, token_file, headers })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl AgentArguments {
    /// An agent without TLS and without a login.
    pub fn at(url: &str) -> AgentArguments {
        AgentArguments { agent_url: url.to_owned(), access: Access::default() }
    }

    /// Requests `path`, which is already escaped.
    ///
    /// # Errors
    /// There is no complete response, or the agent lets nobody in with this; text for a person.
    pub async fn get(&self, path: &str, patience: Duration) -> anyhow::Result<Answer> {
        let server = self.access.server(&self.agent_url)?;
        let answer = server.get(path, patience).await?;
        match server.refusal(&answer) {
            Some(trouble) => bail!(trouble.of(&server)),
            None => Ok(answer),
        }
    }

    /// The flags of another command that asks the same agent.
    pub fn flags(&self) -> Vec<(String, String)> {
        let url = (self.agent_url != DEFAULT_AGENT).then(|| self.agent_url.clone());
        let url = url.map(|url| ("--agent.url".to_owned(), url));
        let files = FILES.iter().zip(self.access.files()).filter_map(|((name, _), file)| {
            Some((format!("--agent.{name}"), file.as_ref()?.display().to_string()))
        });
        url.into_iter().chain(files).collect()
    }
}

/// The secret in `file`.
fn first_line(file: &Path, what: &str) -> anyhow::Result<String> {
    let line = PasswordSource::File(file.to_owned()).stored().context("no file")?;
    let line =
        line.map_err(|error| anyhow::Error::msg(error.to_string().replace("password file", what)))?;
    Ok(line.expose().to_owned())
}
