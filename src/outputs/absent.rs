//! A key that was never seen: a task that nobody runs, or a name that is spelt otherwise.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_watch::redis::libraries;
use lockwatch_watch::zookeeper::recipes;

use crate::text::identity::escape;

/// Whether it is certain that there is no such key, and none was ever seen.
pub fn is_absent(view: &TaskView) -> bool {
    let is_read = view.unknown.is_none() && view.last_reading.is_some();
    is_read && view.held != Some(true) && !view.key_seen
}

/// What is said of a key that was never seen.
pub fn hint(view: &TaskView) -> Option<String> {
    if !is_absent(view) {
        return None;
    }
    if let Some(part) = part(view) {
        return Some(format!("The agent has never seen {part}."));
    }
    let found = match glob(view.spec.kind.key()) {
        Some(glob) => format!(
            "; `lockwatch discover --redis URL --match '{glob}'` finds what it may be called, also \
             with another database in the URL"
        ),
        None => String::new(),
    };
    Some(format!("The agent has never seen its key{found}."))
}

/// What the lock is, if it is no key.
pub fn part(view: &TaskView) -> Option<String> {
    let lock = view.spec.lock()?;
    let field = lock.field.as_deref();
    let field = field.map(|field| format!("the field {} of its key", escape(field)));
    if recipes::named(lock.library.as_str()).is_some() {
        return Some(format!("a contender in {}: see whether that is its path", escape(&lock.key)));
    }
    let listener = || format!("anybody listen to its channel {}", escape(&lock.key));
    field.or_else(|| (!libraries::of(&lock.library).is_key()).then(listener))
}

/// The glob for keys whose name has this one in it, as it stands between single quotes in a shell.
/// `None` if the name has other characters than people type.
pub fn glob(key: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(key).ok()?;
    let is_typed = |character: char| matches!(character, ' '..='~') && character != '\'';
    if !name.chars().all(is_typed) {
        return None;
    }
    let mut glob = String::from("*");
    for character in name.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob.push('*');
    Some(glob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_glob_of_itself() {
        assert_eq!(glob(b"redlock:{a}.b").as_deref(), Some("*redlock:{a}.b*"));
        assert_eq!(glob(b"a*[b]").as_deref(), Some("*a\\*\\[b\\]*"));
        for hostile in [&b"it's"[..], b"a\nb", "\u{e9}".as_bytes(), &[0xff]] {
            assert_eq!(glob(hostile), None);
        }
    }
}
