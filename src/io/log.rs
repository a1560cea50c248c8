//! Writes a watcher's notes to the log.

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Note;
use lockwatch_watch::remedy;

/// Logs `note` about the store `redis`.
pub(super) fn write(store: &str, note: Note) {
    match note {
        Note::Connected { node, version, role } => {
            let role = role.map(lockwatch_judge::input::Role::name);
            tracing::info!(store, node = &*node, version = version.as_deref(), role, "connected");
        }
        Note::CannotConnect(node, failure) => {
            let remedy = remedy(failure.why);
            tracing::warn!(store, node = &*node, %failure, remedy, "cannot connect");
        }
        Note::BatchFailed(node, failure) => {
            tracing::debug!(store, node = &*node, %failure, "a batch failed");
        }
        Note::Refuses(node, failure) => {
            let remedy = remedy(failure.why);
            tracing::warn!(store, node = &*node, %failure, remedy, "the server refuses to answer");
        }
        Note::Refused(node, command) => {
            let what = "the server answers a command with an error";
            tracing::warn!(store, node = &*node, command, "{what}");
        }
        Note::NoMaster { sentinel, failure } => {
            let remedy = sentinel_remedy(failure.why);
            tracing::warn!(store, %sentinel, %failure, remedy, "a Sentinel names no master");
        }
        Note::CannotListen(sentinel, failure) => {
            tracing::debug!(store, %sentinel, %failure, "cannot listen to a Sentinel");
        }
        Note::NoLayout(failure) => {
            let (what, remedy) = ("no server reports the cluster's layout", remedy(failure.why));
            tracing::warn!(store, %failure, remedy, "{what}");
        }
        Note::TellsNoLayout(node, failure) => {
            tracing::debug!(store, %node, %failure, "a server does not report the layout");
        }
        Note::Foreign(address) => {
            let remedy = remedy(Unknown::ForeignAddress);
            let what = "a server is announced at an address that is not allowed";
            tracing::warn!(store, %address, remedy, "{what}");
        }
        Note::Announces(node, prefixes) => {
            tracing::info!(store, node = &*node, prefixes, "the server announces changes");
        }
        Note::AnnouncesNothing(node, failure) => {
            let remedy = announcements_remedy(failure.why);
            let what = "the server does not announce changes: polling goes on";
            tracing::warn!(store, node = &*node, %failure, remedy, "{what}");
        }
        Note::Flooded(node, limit, pause_ms) => {
            let what = "the server announces so many changes that polling costs less";
            tracing::warn!(store, node = &*node, limit, pause_ms, "{what}");
        }
    }
}

/// Advice if a Sentinel names no master.
fn sentinel_remedy(why: Unknown) -> &'static str {
    match why {
        Unknown::Auth | Unknown::NoPermission => {
            "Set or correct `sentinel.password_file` (or `sentinel.password_env`) and \
             `sentinel.username`."
        }
        other => remedy(other),
    }
}

/// Advice if a server does not announce changes.
fn announcements_remedy(why: Unknown) -> &'static str {
    match why {
        Unknown::NoPermission => {
            "give the user the ACL line that `lockwatch acl` prints, or set `wake_ups: false` for \
             this redis"
        }
        Unknown::ServerError | Unknown::Protocol => {
            "wake-ups need Redis 6.0 or later and no proxy that refuses RESP3; else set \
             `wake_ups: false` for this redis"
        }
        other => remedy(other),
    }
}
