//! The credentials of a block: `username`, and one of `password_file`, `password_env` and
//! `password_command`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_yaml::Value;

use super::block::Block;
use super::mistake::Reported;
use super::values::{duration, name, text};

/// User name and source of the password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// ACL user; `None`: the default user.
    pub username: Option<String>,
    /// Source of the password, read at every connect.
    pub password: Option<PasswordSource>,
    /// How long the server lets a login live; `None`: for ever.
    pub max_age: Option<Duration>,
}

impl Login {
    /// How old it may become before it is renewed. The rest is for attempts that fail.
    pub fn renew_after(&self) -> Option<Duration> {
        self.max_age.map(|max_age| max_age * 3 / 4)
    }
}

/// Source of a password. It is read at every connect, so that a rotated password takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// The first line of a file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The first line that a program writes to its standard output: the program and its
    /// arguments.
    Command(Vec<String>),
}

/// Maximum number of words of a command.
const WORDS_MAX: usize = 100;
/// Minimum of `password_max_age`: a login that is renewed more often is a load by itself.
const MAX_AGE_MIN: Duration = Duration::from_secs(5);

const COMMAND_SHAPE: &str = "write the program and its arguments: `[aws-token, cache]`";

/// Reads the fields. `dir` is the base of relative paths.
pub(super) fn read(block: &Block<'_>, dir: &Path) -> Result<Login, Reported> {
    let username = block.optional("username", username);
    let password = read_password(block, dir);
    let max_age = block.optional("password_max_age", duration(MAX_AGE_MIN));
    let (password, max_age) = (password?, max_age?);
    if max_age.is_some() && password.is_none() {
        let message = "stands without a password; name where it comes from with \
                       `password_command` or `password_file`";
        return Err(block.report("password_max_age", message));
    }
    Ok(Login { username: username?, password, max_age })
}

fn read_password(block: &Block<'_>, dir: &Path) -> Result<Option<PasswordSource>, Reported> {
    let file = block.optional("password_file", |value| path(value, dir));
    let variable = block.optional("password_env", variable);
    let command = read_command(block, dir);
    let sources = [
        ("password_file", file?.map(PasswordSource::File)),
        ("password_env", variable?.map(PasswordSource::Env)),
        ("password_command", command?.map(PasswordSource::Command)),
    ];
    let mut present = sources.into_iter().filter_map(|(field, source)| Some((field, source?)));
    match (present.next(), present.next()) {
        (Some((first, _)), Some((second, _))) => Err(block.report(
            second,
            format!(
                "cannot be combined with `{first}`; keep the one that the password is read from"
            ),
        )),
        (one, _) => Ok(one.map(|(_, source)| source)),
    }
}

fn read_command(block: &Block<'_>, dir: &Path) -> Result<Option<Vec<String>>, Reported> {
    let Some(at) = block.at("password_command") else { return Ok(None) };
    let mut words = at.list(word)?;
    match words.first_mut() {
        Some(program) if !program.is_empty() => {
            // Like other paths, it starts in the folder of the configuration; a bare name is
            // searched in the folders of `PATH`.
            if program.contains('/') {
                *program = dir.join(&*program).to_string_lossy().into_owned();
            }
        }
        _ => return Err(at.report(format!("names no program; {COMMAND_SHAPE}"))),
    }
    if words.len() > WORDS_MAX {
        return Err(at.report(format!("has {} words; write at most {WORDS_MAX}", words.len())));
    }
    Ok(Some(words))
}

fn word(value: &Value) -> Result<String, String> {
    let word = text(value)?;
    if word.contains('\0') {
        Err("has a NUL byte in it; leave it out".to_owned())
    } else {
        Ok(word)
    }
}

/// Redis accepts no user name with white space.
fn username(value: &Value) -> Result<String, String> {
    let user = name(value)?;
    let spaced = user.contains(char::is_whitespace);
    if spaced { Err("has white space in it; use the ACL user's name".to_owned()) } else { Ok(user) }
}

fn path(value: &Value, dir: &Path) -> Result<PathBuf, String> {
    let path = text(value)?;
    if path.is_empty() || path.contains('\0') {
        return Err(
            "is not a path; write the path of a file whose first line is the password".to_owned()
        );
    }
    Ok(dir.join(path))
}

fn variable(value: &Value) -> Result<String, String> {
    let variable = text(value)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if variable.is_empty() || !variable.bytes().all(plain) {
        // The value may be the password itself, so the message does not repeat it.
        return Err(
            "is not the name of an environment variable; write its name, letters, digits and _, \
                    not the password"
                .to_owned(),
        );
    }
    Ok(variable)
}
