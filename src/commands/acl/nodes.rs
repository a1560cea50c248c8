//! What a user needs in a ZooKeeper ensemble: READ on the nodes that are asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lockwatch_judge::spec::StoreIndex;
use lockwatch_watch::zookeeper::nodes;

use super::rule::addresses;
use crate::config::{Config, ZooKeeperConfig};
use crate::text::identity::escape;

/// The rights for the agent in all ensembles of `config`: notes, which begin with `#`, and a line
/// for `zkCli.sh` for each node.
pub(super) fn report(config: &Config) -> Vec<String> {
    let ensembles = (config.first_zookeeper()..).map(StoreIndex).zip(&config.zookeepers);
    ensembles.map(|(index, ensemble)| of_ensemble(config, index, ensemble)).collect()
}

fn of_ensemble(config: &Config, index: StoreIndex, ensemble: &ZooKeeperConfig) -> String {
    let mut needed: BTreeMap<String, bool> = BTreeMap::new();
    for (_, task) in config.tasks_on(index) {
        for (path, with_children) in nodes(&task) {
            *needed.entry(path).or_default() |= with_children;
        }
    }
    let has_login = ensemble.login.password.is_some();
    let who = if has_login { "digest:USER:HASH:r" } else { "world:anyone:r" };
    let mut text = format!(
        "# zookeeper {:?} at {}: the agent needs READ, and nothing else\n",
        ensemble.name,
        addresses(&ensemble.servers)
    );
    let mut note = |note: &str| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "# {note}");
    };
    note(
        "give each line to zkCli.sh as a user with ADMIN there. `setAcl` replaces all rights of a \
         node: put what `getAcl` shows of it in place of EXISTING, or its clients lose theirs",
    );
    match has_login {
        true => note(
            "USER is the user in `auth_file`; HASH comes from `printf %s USER:PASSWORD | openssl \
             sha1 -binary | base64`",
        ),
        false => note(
            "no `auth_file` is configured, so everybody must be allowed to read; with one it can \
             be a single user",
        ),
    }
    if needed.values().any(|with_children| *with_children) {
        note(&format!(
            "READ on the children, too, of nodes marked so: each has the rights that its client \
             gives it, so add {who} there (Curator's ACLProvider, Kazoo's default_acl)"
        ));
    }
    for (path, with_children) in needed {
        let path = escape(path.as_bytes());
        if with_children {
            let _ = writeln!(text, "# {path} and its children:");
        }
        let quote = if path.contains(' ') { "\"" } else { "" };
        let _ = writeln!(text, "setAcl {quote}{path}{quote} EXISTING,{who}");
    }
    text
}
