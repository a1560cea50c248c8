//! The credentials of a block: `username`, and `password_file` or `password_env`.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

use super::block::Block;
use super::mistake::Reported;
use super::values::{name, text};
use super::{Login, PasswordSource};

/// Reads the fields. `dir` is the base of relative paths.
pub(super) fn read(block: &Block<'_>, dir: &Path) -> Result<Login, Reported> {
    let username = block.optional("username", username);
    let password = read_password(block, dir);
    Ok(Login { username: username?, password: password? })
}

fn read_password(block: &Block<'_>, dir: &Path) -> Result<Option<PasswordSource>, Reported> {
    let file = block.optional("password_file", |value| path(value, dir));
    let variable = block.optional("password_env", variable);
    match (file?, variable?) {
        (Some(_), Some(_)) => Err(block.report(
            "password_env",
            "cannot stand beside `password_file`; keep the one that the password is read from",
        )),
        (Some(file), None) => Ok(Some(PasswordSource::File(file))),
        (None, Some(variable)) => Ok(Some(PasswordSource::Env(variable))),
        (None, None) => Ok(None),
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
