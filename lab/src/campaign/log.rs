//! A log file to which several tasks write one line at a time. No line is lost when the process is
//! killed.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;

/// A file of lines. Clones write to the same file.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<File>>);

impl Log {
    /// Opens the log `name` in `folder` for appending.
    pub(super) fn open(folder: &Path, name: &str) -> anyhow::Result<Log> {
        let path = folder.join(name);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok(Log(Arc::new(Mutex::new(
            file.with_context(|| format!("cannot write {}", path.display()))?,
        ))))
    }

    /// Appends a line. A full disk must not end the run: the checker reports missing lines.
    pub(super) fn line(&self, line: impl Display) {
        let text = format!("{line}\n");
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _full = file.write_all(text.as_bytes());
    }
}
