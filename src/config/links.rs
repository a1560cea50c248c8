//! The block `links`: where people reach what the alerts point to.

use serde_yaml::Value;

use super::block::Block;
use super::mistake::Reported;
use super::schema::LINKS;
use super::values::text;
use crate::paths::{Links, RUNBOOKS};

/// Maximum length of a link in bytes: each is a label.
const LINK_BYTES_MAX: usize = 500;

/// Reads the block of the document. Where no wiki has the runbooks, the agent shows them.
pub(super) fn read(top: &Block<'_>) -> Result<Links, Reported> {
    let Some(block) = top.child("links", &LINKS)? else { return Ok(Links::NONE) };
    let [grafana, lockwatch, runbooks] =
        ["grafana", "lockwatch", "runbooks"].map(|name| block.optional(name, link));
    let (grafana, lockwatch, runbooks) = (grafana?, lockwatch?, runbooks?);
    let own = || lockwatch.as_ref().map(|lockwatch| format!("{lockwatch}{RUNBOOKS}"));
    let runbooks = runbooks.or_else(own).map(Into::into);
    Ok(Links { grafana: grafana.map(Into::into), lockwatch: lockwatch.map(Into::into), runbooks })
}

/// An absolute address, without the slash at its end. It becomes a label that anybody may read.
fn link(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
        return Err("is no address; write it whole: `https://grafana.example`".to_owned());
    };
    if rest.split(['/', '?', '#']).next().unwrap_or_default().contains('@') {
        return Err("has a user or password in it; links are shown to everybody".to_owned());
    }
    if text.contains(['?', '#']) {
        return Err("has `?` or `#` in it; write the address that paths are added to".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}'".contains(&byte)) {
        return Err("has characters in it that no address has; encode them as %XX".to_owned());
    }
    if text.len() > LINK_BYTES_MAX {
        return Err(format!("is {} bytes long; use at most {LINK_BYTES_MAX}", text.len()));
    }
    Ok(text.trim_end_matches('/').to_owned())
}
