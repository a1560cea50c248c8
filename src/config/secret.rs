//! Passwords: read again at every connect, and never shown.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::login::PasswordSource;
use crate::text::marks::{IS_UTF_16, after_mark};

/// Maximum length of the first line in bytes. A longer one indicates that the path names some other
/// file.
pub(crate) const SECRET_BYTES_MAX: u64 = 4096;

/// Mode bits that let others read the file.
const OTHERS_READ: u32 = 0o004;

/// Mode bits that let the group or others write the file.
const ALIENS_WRITE: u32 = 0o022;

/// A password. Neither `Debug` nor any message shows it; [`Secret::expose`] passes it to the
/// connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// This password.
    pub fn new(password: impl Into<String>) -> Secret {
        Secret(password.into())
    }

    /// The password itself, for authentication only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why there is no password. Names the file or variable, never its contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the password file {path:?}: {error}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The environment variable is not set.
    #[error("{0} is not set (`password_env` is its name, not the password)")]
    Unset(String),
    /// The source is empty.
    #[error("{0} is empty; its first line must be the password")]
    Empty(String),
    /// An editor wrote it in another encoding.
    #[error("{0} {IS_UTF_16}")]
    Utf16(String),
    /// The content cannot be a password.
    #[error(
        "{0} does not hold a password: its first line must be UTF-8 text of at most \
         {SECRET_BYTES_MAX} bytes"
    )]
    NotText(String),
}

impl PasswordSource {
    /// Reads the password from where it is stored; `None`: a command has to be run for it.
    pub fn stored(&self) -> Option<Result<Secret, SecretError>> {
        let bytes = match self {
            PasswordSource::File(path) => read_start(path)
                .map_err(|error| SecretError::Unreadable { path: path.clone(), error }),
            PasswordSource::Env(variable) => env::var_os(variable)
                .map(OsString::into_encoded_bytes)
                .ok_or_else(|| SecretError::Unset(self.to_string())),
            PasswordSource::Command(_) => return None,
        };
        Some(bytes.and_then(|bytes| self.first_line(&bytes)))
    }

    /// A warning about unsafe permissions of the password file, or a command that does not exist.
    ///
    /// Not an error: Kubernetes mounts secrets with mode 0644 unless configured otherwise, in a
    /// directory of the pod's own.
    pub fn warning(&self) -> Option<String> {
        match self {
            PasswordSource::File(path) => exposed(path, "the password file"),
            PasswordSource::Env(_) => None,
            PasswordSource::Command(words) => {
                let program = words.first().filter(|program| program.contains('/'))?;
                let exists = Path::new(program).exists();
                (!exists).then(|| format!("the password command {program} does not exist"))
            }
        }
    }

    /// The password in these bytes of the source: their first line, without its line end.
    ///
    /// # Errors
    /// There is no usable password.
    pub(crate) fn first_line(&self, bytes: &[u8]) -> Result<Secret, SecretError> {
        let Some(bytes) = after_mark(bytes) else {
            return Err(SecretError::Utf16(self.to_string()));
        };
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Err(SecretError::Empty(self.to_string()));
        }
        match std::str::from_utf8(line) {
            Ok(text) if line.len() as u64 <= SECRET_BYTES_MAX => Ok(Secret(text.to_owned())),
            _ => Err(SecretError::NotText(self.to_string())),
        }
    }
}

/// The source, for messages.
impl fmt::Display for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasswordSource::File(path) => write!(f, "the password file {path:?}"),
            // Another name may be the password, written in the wrong place.
            PasswordSource::Env(variable) if !is_usual_name(variable) => {
                f.write_str("the environment variable of `password_env`")
            }
            PasswordSource::Env(variable) => write!(f, "the environment variable {variable}"),
            // Not its arguments: one of them may be a secret.
            PasswordSource::Command(words) => {
                let program = words.first().map(String::as_str).unwrap_or_default();
                write!(f, "the output of the password command {program}")
            }
        }
    }
}

/// Whether a variable is named as such variables usually are.
fn is_usual_name(variable: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    variable.bytes().all(is_usual)
}

/// A warning about unsafe permissions of a file with a secret, which is called `what`.
pub(crate) fn exposed(path: &Path, what: &str) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.mode();
    let danger = match mode {
        _ if mode & ALIENS_WRITE != 0 => "written by users other than its owner",
        _ if mode & OTHERS_READ != 0 => "read by every user of this machine",
        _ => return None,
    };
    Some(format!("{what} {path:?} can be {danger}; chmod 0400 it unless its directory protects it"))
}

/// The start of a file: enough for a password and its line end, and bounded for a file without an
/// end.
fn read_start(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SECRET_BYTES_MAX + 2).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(contents: &[u8]) -> (tempfile::TempDir, PasswordSource) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        fs::write(&path, contents).unwrap();
        (dir, PasswordSource::File(path))
    }

    #[test]
    fn the_first_line_is_the_password() {
        for (contents, password) in [
            ("hunter2", "hunter2"),
            ("hunter2\n", "hunter2"),
            ("hunter2\r\nmore\n", "hunter2"),
            (" a b \n", " a b "),
            ("\u{feff}hunter2\r\n", "hunter2"),
        ] {
            let (_dir, source) = file(contents.as_bytes());
            assert_eq!(source.stored().unwrap().unwrap().expose(), password);
        }
        let (_dir, source) = file("p".repeat(4096).as_bytes());
        assert_eq!(source.stored().unwrap().unwrap().expose().len(), 4096);
    }

    #[test]
    fn a_rotated_password_is_picked_up() {
        let (_dir, source) = file(b"old");
        assert_eq!(source.stored().unwrap().unwrap().expose(), "old");
        let PasswordSource::File(path) = &source else { panic!("a file") };
        fs::write(path, "new\n").unwrap();
        assert_eq!(source.stored().unwrap().unwrap().expose(), "new");
    }

    #[test]
    fn what_is_no_password_is_told_without_its_contents() {
        for (contents, expected) in [
            (b"".as_slice(), "is empty"),
            (b"\nhunter2", "is empty"),
            (b"\r\n", "is empty"),
            (b"\xff\xfeh\0u\0", "is UTF-16 text; save it as UTF-8"),
            (b"\xef\xbb\xbf\n", "is empty"),
            (b"hunter2\xff", "does not hold a password"),
            (&[b'p'; 4097], "does not hold a password"),
        ] {
            let (_dir, source) = file(contents);
            let error = source.stored().unwrap().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let absent = PasswordSource::File("/nowhere/at all".into())
            .stored()
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(absent.contains("/nowhere/at all"), "{absent}");
        let unset = PasswordSource::Env("LOCKWATCH_TEST_UNSET".into())
            .stored()
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(unset.contains("LOCKWATCH_TEST_UNSET"), "{unset}");
        let misplaced = PasswordSource::Env("sesame".into()).stored().unwrap().unwrap_err();
        let misplaced = misplaced.to_string();
        assert!(misplaced.contains("`password_env` is its name, not the password"), "{misplaced}");
        assert!(!misplaced.contains("sesame"), "{misplaced}");
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let error = PasswordSource::File("/dev/zero".into()).stored().unwrap().unwrap_err();
        assert!(matches!(error, SecretError::NotText(_)), "{error}");
    }

    #[test]
    fn a_secret_shows_nothing() {
        let (_dir, source) = file(b"hunter2");
        assert_eq!(format!("{:?}", source.stored().unwrap().unwrap()), "Secret(…)");
    }

    #[test]
    fn open_files_get_a_warning() {
        let (_dir, source) = file(b"hunter2");
        let PasswordSource::File(path) = &source else { panic!("a file") };
        for (mode, expected) in [
            (0o400, None),
            (0o440, None),
            (0o644, Some("read by every user")),
            (0o660, Some("written by users")),
        ] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let warning = source.warning();
            assert_eq!(warning.is_some(), expected.is_some(), "{mode:o}: {warning:?}");
            assert!(warning.unwrap_or_default().contains(expected.unwrap_or_default()), "{mode:o}");
        }
    }
}
