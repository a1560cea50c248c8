//! Why something is unknown, for people and programs: the server's own words, and what to do.

use std::borrow::Cow;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::remedy;

use crate::api::{self, sentences};

/// The words, if there are any, and the remedy, in sentences.
pub fn message(why: Unknown, said: Option<&str>) -> Cow<'static, str> {
    sentences(said, remedy(why))
}

/// The same for programs.
pub fn unknown(why: Unknown, said: Option<&str>) -> api::Unknown {
    let said = said.map(|said| said.to_owned().into());
    api::Unknown { reason: why.name().into(), said, remedy: remedy(why).into() }
}
