//! What a ZooKeeper server was asked about a task, and its answers, in words.

use lockwatch_watch::zookeeper::codec::{Answer, Ask, Stat};

use super::redact::Said;
use crate::text::identity::escape;

/// Maximum number of children that are shown.
const CHILDREN_MAX: usize = 40;
/// Maximum length of data that are shown, in bytes.
const DATA_BYTES_MAX: usize = 128;

/// What was asked, and the answer; `None`: more than is read.
pub(super) fn said(ask: &Ask, answer: Option<&Answer>) -> Said {
    let reply = match answer {
        None => vec!["more than is read".to_owned()],
        Some(Answer::Children(names, _)) if names.is_empty() => vec!["(no children)".to_owned()],
        Some(Answer::Children(names, _)) => {
            let shown = names.iter().take(CHILDREN_MAX).map(|name| escape(name.as_bytes()).into());
            let more = names.len().saturating_sub(CHILDREN_MAX);
            shown.chain((more > 0).then(|| format!("… and {more} more"))).collect()
        }
        Some(Answer::Data(data, stat)) => {
            let shown = data.get(..DATA_BYTES_MAX).unwrap_or(data);
            let cut = if shown.len() < data.len() { "…" } else { "" };
            vec![format!("\"{}{cut}\"{}", escape(shown), owner(stat))]
        }
        Some(Answer::Exists(stat)) => vec![format!("it is there{}", owner(stat))],
        Some(Answer::NoNode) => vec!["(no such node)".to_owned()],
        Some(Answer::NoAuth) => vec!["(error) NoAuth".to_owned()],
        Some(Answer::Refused(code)) => vec![format!("(error) {}", code.0)],
    };
    Said { command: format!("{} {}", ask.name(), escape(ask.path().as_bytes())), reply }
}

fn owner(stat: &Stat) -> String {
    stat.owner.map(|owner| format!(", of session 0x{:x}", owner.0)).unwrap_or_default()
}
