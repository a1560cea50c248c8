//! Why something is not known, for people: the server's own words, and what to do.

use std::borrow::Cow;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::remedy;

/// The words, if there are any, and the remedy, in sentences.
pub fn told(why: Unknown, said: Option<&str>) -> Cow<'static, str> {
    match said {
        Some(said) => joined(said, remedy(why)).into(),
        None => remedy(why).into(),
    }
}

/// What was said, and what to do about it, in sentences.
pub fn joined(said: &str, remedy: &str) -> String {
    let end = if said.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{said}{end} {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_come_first() {
        let remedy = remedy(Unknown::Protected);
        assert_eq!(told(Unknown::Protected, None), remedy);
        for said in ["DENIED", "DENIED."] {
            assert_eq!(told(Unknown::Protected, Some(said)), format!("DENIED. {remedy}"));
        }
    }
}
