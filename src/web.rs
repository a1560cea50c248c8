//! What the web file puts before the pages: TLS, logins, headers and a rate limit. It knows no
//! HTTP: `http` asks it.
//!
//! The file and the files that it names are read again several times a second. What was read last
//! stays in force if the new contents cannot be used, or if they would take off a protection: a
//! file that is half written must open no door.

mod bucket;
mod clients;
mod files;
mod logins;
mod names;
mod tls;
mod weaker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::blocking;
use crate::config::ConfigErrors;
use crate::config::web::WebConfig;
pub use files::Door;
pub use logins::{Access, Credentials, Logins};
pub use weaker::weaker;

/// Pause between two looks at the files.
const LOOK: Duration = Duration::from_millis(250);

/// The web file, as it is in force now.
#[derive(Clone, Debug)]
pub struct Web {
    path: PathBuf,
    /// Whether the paths of health answer without a login.
    pub health_without_login: bool,
    door: watch::Receiver<Arc<Door>>,
    put: Arc<watch::Sender<Arc<Door>>>,
    /// The checks of passwords.
    pub logins: Arc<Logins>,
}

/// Checks the file without serving anything, and returns what it says.
///
/// # Errors
/// All mistakes at once.
pub fn check(path: &Path) -> Result<WebConfig, ConfigErrors> {
    files::load(path).map(|door| door.config)
}

impl Web {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load(path: &Path, health_without_login: bool) -> Result<Web, ConfigErrors> {
        let door = Arc::new(files::load(path)?);
        for warning in &door.config.warnings {
            tracing::warn!("{}: {warning}", path.display());
        }
        let (put, door) = watch::channel(door);
        let logins = Arc::new(Logins::new());
        Ok(Web { path: path.to_owned(), health_without_login, door, put: Arc::new(put), logins })
    }

    /// The version that is in force.
    pub fn door(&self) -> Arc<Door> {
        Arc::clone(&self.door.borrow())
    }

    /// Returns when `door` is in force no longer.
    pub async fn replaced(&self, door: &Arc<Door>) {
        let mut newest = self.door.clone();
        // The sender lives in `self`, so this ends only when another version is there.
        let _ended = newest.wait_for(|newest| !Arc::ptr_eq(newest, door)).await;
    }

    /// Reads the files again and again.
    pub async fn follow(self) {
        let mut complaints = Complaints::default();
        loop {
            tokio::time::sleep(LOOK).await;
            let (path, before) = (self.path.clone(), self.door());
            let looked = blocking::run(move || files::renewed(&path, &before)).await;
            match looked.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(None) => complaints = Complaints::default(),
                Ok(Some(door)) => {
                    complaints = Complaints::default();
                    self.put_in_force(door);
                }
                Err(complaint) => complaints.hear(&self.path, complaint),
            }
        }
    }

    fn put_in_force(&self, door: Door) {
        let path = self.path.display();
        tracing::info!("{path}: the web file, or a file that it names, was replaced: in force now");
        for warning in &door.config.warnings {
            tracing::warn!("{path}: {warning}");
        }
        self.put.send_replace(Arc::new(door));
    }
}

/// What was wrong at the last look. It is logged at the second look in a row, and once: at the
/// first, somebody may just be writing.
#[derive(Debug, Default)]
struct Complaints {
    last: Option<String>,
    warned: Option<String>,
}

impl Complaints {
    fn hear(&mut self, path: &Path, complaint: String) {
        if self.last.as_ref() == Some(&complaint) && self.warned.as_ref() != Some(&complaint) {
            let what = "the web file cannot be used as it is now: what was read before stays in \
                        force";
            tracing::error!(file = %path.display(), complaint, "{what}");
            self.warned = Some(complaint.clone());
        }
        self.last = Some(complaint);
    }
}
