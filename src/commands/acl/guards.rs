//! The rules for the users of guards.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use lockwatch_judge::spec::StoreIndex;
use lockwatch_watch::redis::RedisKind;

use super::rule::{AclRule, ServerVersion, WIDENED, opening, user_note, where_to};
use crate::commands::guard::{rights, rights_words};
use crate::commands::rule::line;
use crate::config::{Config, Login, RedisConfig};

/// The suggested user where a guard has no login of its own.
const DEFAULT_USER: &str = "lockwatch-guard";

/// A rule replaces all that its user might do before.
const SHARED: &str = "the agent has the same user, and this rule replaces the agent's: give the \
                      guard a user of its own";

/// One rule for each user: what the guards of all its tasks need.
pub(super) fn rules(
    config: &Config,
    index: StoreIndex,
    redis: &RedisConfig,
    version: ServerVersion,
) -> Vec<AclRule> {
    let is_cluster = redis.servers.kind() == RedisKind::Cluster;
    let mut users = BTreeMap::new();
    let none = Login::default();
    for task in config.tasks.iter().filter(|task| task.store == index) {
        let Some(guard) = config.guards.get(&task.name) else { continue };
        let login = guard.login.as_ref().unwrap_or(&none);
        let user = login.username.as_deref().unwrap_or(DEFAULT_USER);
        let rights = rights(task, guard.progress.is_some(), is_cluster);
        match users.entry(user) {
            Entry::Vacant(entry) => {
                entry.insert((login, task.name.to_string(), rights));
            }
            Entry::Occupied(mut entry) => {
                let (_, tasks, of_all) = entry.get_mut();
                tasks.push_str(", ");
                tasks.push_str(&task.name);
                of_all.join(rights);
            }
        }
    }
    let rules = users.into_values().map(|(login, tasks, mut rights): (&Login, String, _)| {
        if redis.db != 0 {
            rights.commands.insert("select".to_owned());
        }
        if version < ServerVersion::V6_2 {
            rights.channels.clear();
        }
        if version < ServerVersion::V7_0 {
            rights.commands.remove("spublish");
        }
        let mut words = opening(login, DEFAULT_USER, version);
        let (of_rights, widened) = rights_words(&rights);
        words.extend(of_rights);
        let mut notes = vec![format!("for `lockwatch guard` of {tasks}, {}", where_to(redis))];
        notes.extend(user_note(login, DEFAULT_USER, " in the block `guard`"));
        notes.extend(widened.then(|| WIDENED.to_owned()));
        let is_shared = login.username.is_some() && login.username == redis.login.username;
        notes.extend(is_shared.then(|| SHARED.to_owned()));
        AclRule { redis: Arc::clone(&redis.name), notes, line: line(&words) }
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_guard_that_shares_the_agents_user_is_told_that_one_rule_replaces_the_other() {
        let notes = |guard: &str| {
            let text = format!(
                "redis: {{main: {{url: \"redis://a:1\", username: reader}}}}\n\
                 tasks:\n  - {{name: t, lock: {{key: l}}, guard: {{username: {guard}}}}}\n"
            );
            let config = Config::parse(&text, Path::new("lockwatch.yml")).unwrap();
            let redis = config.redises.first().unwrap();
            let rules = rules(&config, StoreIndex(0), redis, ServerVersion::V7_2);
            rules.into_iter().flat_map(|rule| rule.notes).collect::<Vec<_>>()
        };
        assert!(notes("reader").contains(&SHARED.to_owned()));
        assert!(!notes("runner").contains(&SHARED.to_owned()));
    }
}
