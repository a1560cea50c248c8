//! Passwords: where they come from, the command that logs in, and what must not be shown of what a
//! server says about them.

mod command;

pub(crate) use command::beside_commands;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::{Dialled, Failure};
use lockwatch_watch::redis::reply::{Command, Reply};

use crate::blocking;
use crate::config::{Login, PasswordSource, Secret};

/// Reads the password on each dial, so that a rotated one is picked up.
pub(super) async fn password(source: Option<&PasswordSource>) -> Result<Option<Secret>, Failure> {
    let Some(source) = source.cloned() else { return Ok(None) };
    if let PasswordSource::Command(words) = &source {
        let output = command::output(words).await;
        let output = output.map_err(|error| Failure::new(Unknown::Auth, error))?;
        let secret = source.first_line(&output);
        return secret.map(Some).map_err(|error| Failure::new(Unknown::Auth, error));
    }
    // Done on a thread, because the file may be on a network file system.
    let read = blocking::run(move || source.stored()).await;
    let read = read.map_err(|error| Failure::new(Unknown::Auth, error))?;
    read.transpose().map_err(|error| Failure::new(Unknown::Auth, error))
}

/// Another password than the one that the server refused, if there is one by now. A command is not
/// run again: its output is as new as the connection.
pub(super) async fn newer(
    login: &Login,
    refused: Option<&Secret>,
    dialled: &Dialled,
) -> Option<Secret> {
    let source = login.password.as_ref()?;
    if matches!(source, PasswordSource::Command(_))
        || !matches!(dialled.auth, Some(Reply::Error(_)))
    {
        return None;
    }
    let newer = password(Some(source)).await.ok().flatten()?;
    (Some(&newer) != refused).then_some(newer)
}

/// The command that logs in; `None`: there are no credentials.
pub(super) fn auth(login: &Login, password: Option<&Secret>) -> Option<Command> {
    let password = password.map(Secret::expose);
    match (login.username.as_deref(), password) {
        (Some(username), password) => {
            Some(Command::new(["AUTH", username, password.unwrap_or_default()]))
        }
        (None, Some(password)) => Some(Command::new(["AUTH", password])),
        (None, None) => None,
    }
}

/// Hides the password in the errors among `replies`, wherever the server repeats it.
pub(super) fn mask(replies: &mut [Reply], password: Option<&Secret>) {
    let Some(secret) = password.map(Secret::expose).filter(|secret| !secret.is_empty()) else {
        return;
    };
    for reply in replies {
        if let Reply::Error(error) = reply {
            let said = [error.code.as_slice(), b" ", &error.detail].concat();
            if REFUSALS.iter().any(|refusal| refusal.as_bytes() == said) {
                continue;
            }
            let hide = |bytes: &[u8]| masked(&String::from_utf8_lossy(bytes), secret).into_bytes();
            if !CODES.contains(&error.code.as_slice()) {
                error.code = hide(&error.code);
            }
            error.detail = hide(&error.detail);
        }
    }
}

/// What a peer said, without any part of the password.
pub(super) fn hidden(said: &str, password: Option<&Secret>) -> String {
    match password.map(Secret::expose).filter(|secret| !secret.is_empty()) {
        Some(secret) => masked(said, secret),
        None => said.to_owned(),
    }
}

/// Refusals that are shown unchanged, although a password may share a word with them.
const REFUSALS: [&str; 8] = [
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "ERR invalid password",
    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
     your configuration is correct?",
    "ERR Client sent AUTH, but no password is set",
    "ERR operation not permitted",
    "ERR max number of clients reached",
    "ERR max number of clients + cluster connections reached",
];
/// Codes of errors that are no part of a password.
const CODES: [&[u8]; 12] = [
    b"ERR",
    b"NOAUTH",
    b"WRONGPASS",
    b"DENIED",
    b"NOPERM",
    b"LOADING",
    b"BUSY",
    b"MASTERDOWN",
    b"MOVED",
    b"ASK",
    b"CLUSTERDOWN",
    b"WRONGTYPE",
];
/// Length in characters from which a part of a password is masked.
const PART: usize = 4;

/// `said` without any part of `secret`. A server that does not know `AUTH` repeats its arguments,
/// perhaps truncated, and a peer that is not Redis may repeat them anywhere. Non-ASCII characters
/// are already `?` here.
fn masked(said: &str, secret: &str) -> String {
    let secret: Vec<u8> =
        secret.bytes().map(|byte| if byte.is_ascii() { byte } else { b'?' }).collect();
    let said: String =
        said.chars().map(|character| if character.is_ascii() { character } else { '?' }).collect();
    let part = secret.len().min(PART);
    let mut hidden = vec![false; said.len()];
    for (at, window) in said.as_bytes().windows(part).enumerate() {
        if secret.windows(part).any(|of_secret| of_secret == window) {
            hidden.iter_mut().skip(at).take(part).for_each(|hidden| *hidden = true);
        }
    }
    let mut shown = String::with_capacity(said.len());
    for (character, hidden) in said.chars().zip(hidden) {
        match hidden {
            false => shown.push(character),
            true if shown.ends_with(MASK) => {}
            true => shown.push_str(MASK),
        }
    }
    shown
}

/// The replacement for a password.
const MASK: &str = "***";

#[cfg(test)]
mod tests {
    use lockwatch_watch::redis::reply::ServerError;

    use super::*;

    fn masked(said: &str, password: &str) -> String {
        let (code, detail) = said.split_once(' ').unwrap();
        let error = ServerError { code: code.into(), detail: detail.into() };
        let mut replies = [Reply::Error(error)];
        mask(&mut replies, Some(&Secret::new(password)));
        let [Reply::Error(ServerError { code, detail })] = replies else { panic!() };
        String::from_utf8([code, b" ".into(), detail].concat()).unwrap()
    }

    #[test]
    fn no_part_of_the_password_is_shown_wherever_a_server_repeats_it() {
        let password = "hünter2-and-more";
        assert_eq!(masked("h??nter2-and-more what?", password), "*** what?", "as the code");
        assert_eq!(
            masked("ERR args beginning with: 'h??nter2-and", password),
            "ERR args beginning with: '***",
            "cut off"
        );
        assert_eq!(masked("ERR nter2", password), "ERR ***", "its middle");
        assert_eq!(masked("ERR no AUTH here", password), "ERR no AUTH here");
    }

    /// Nobody learns from the mask what the password is.
    #[test]
    fn common_refusals_are_shown_unchanged() {
        for refusal in REFUSALS {
            assert_eq!(masked(refusal, "password"), refusal);
        }
        assert_eq!(masked("NOPERM no", "NOPERM"), "NOPERM no", "the reason stays known");
    }

    #[test]
    fn the_login_has_the_form_that_the_user_needs() {
        let first = |username: Option<&str>, password: Option<&str>| {
            let login = Login { username: username.map(str::to_owned), ..Login::default() };
            let password = password.map(Secret::new);
            let words = auth(&login, password.as_ref())?.args.into_iter();
            Some(words.map(|word| String::from_utf8(word).unwrap()).collect::<Vec<_>>().join("/"))
        };
        assert_eq!(first(Some("u"), Some("p")).as_deref(), Some("AUTH/u/p"));
        assert_eq!(first(None, Some("p")).as_deref(), Some("AUTH/p"));
        assert_eq!(first(Some("nopass"), None).as_deref(), Some("AUTH/nopass/"));
        assert_eq!(first(None, None), None);
    }
}
