//! Markup with texts that depend on the current time. It compares equal as long as only time has
//! passed, so it need not be sent again: the script updates the texts from the instants in the data
//! attributes.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use lockwatch_judge::time::{AgentWall, Mono};

use super::html::Text;
use super::pulse::Pulse;
use super::words::running;
use crate::api::At;
use crate::published::Published;
use crate::text::instants::rfc3339;

/// A lease of which less than this fraction (1/3) is left indicates a missed renewal.
const LOW: u64 = 3;
/// Minimum step of the agent's wall clock, in milliseconds, after which instants are sent again.
const CLOCK_SET_MS: u64 = 2_000;

/// An instant for people. Compared by the agent's monotonic clock, because the wall clock drifts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    mono: Mono,
    wall: AgentWall,
}

impl Moment {
    pub(super) fn of(published: &Published, mono: Mono) -> Moment {
        Moment { mono, wall: published.wall_at(mono) }
    }

    /// An instant of the agent's wall clock in this snapshot.
    pub(super) fn at(published: &Published, at: At) -> Moment {
        let wall = AgentWall(at.0.unwrap_or_default());
        let ago_ms = u64::try_from(published.wall.0.saturating_sub(wall.0)).unwrap_or_default();
        Moment { mono: published.snapshot.at.minus_ms(ago_ms), wall }
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Moment) -> bool {
        self.mono == other.mono && self.wall.0.abs_diff(other.wall.0) < CLOCK_SET_MS
    }
}

impl Hash for Moment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mono.hash(state);
    }
}

/// A text that depends on the current time.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Moving {
    /// The time since a state began.
    Since(Moment),
    /// The time since an event.
    Ago(Moment),
    /// The time since the progress moved, see [`Pulse`].
    Progress,
    /// The remaining lease, see [`Pulse`].
    Lease,
}

/// The markup: static parts, and the texts between them that depend on time.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Markup {
    still: String,
    /// The offsets in `still` at which they stand, in order.
    moving: Vec<(usize, Moving)>,
}

impl Markup {
    /// Adds trusted markup.
    pub(super) fn html(&mut self, html: &str) -> &mut Markup {
        self.still.push_str(html);
        self
    }

    /// Adds trusted markup with values that escape themselves.
    pub(super) fn format(&mut self, html: fmt::Arguments<'_>) -> &mut Markup {
        // Writing to a `String` cannot fail.
        let _ = self.still.write_fmt(html);
        self
    }

    /// Adds untrusted text, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Markup {
        self.format(format_args!("{}", Text(text)))
    }

    pub(super) fn since(&mut self, moment: Moment) -> &mut Markup {
        self.moving(Moving::Since(moment))
    }

    pub(super) fn ago(&mut self, moment: Moment) -> &mut Markup {
        self.moving(Moving::Ago(moment))
    }

    pub(super) fn progress(&mut self) -> &mut Markup {
        self.moving(Moving::Progress)
    }

    pub(super) fn lease(&mut self) -> &mut Markup {
        self.moving(Moving::Lease)
    }

    fn moving(&mut self, moving: Moving) -> &mut Markup {
        self.moving.push((self.still.len(), moving));
        self
    }

    /// The static parts.
    pub(super) fn still(&self) -> &str {
        &self.still
    }

    /// Writes all of it as of `now`. Without that, the script fills in the texts that depend on
    /// time.
    pub(super) fn write(&self, html: &mut String, pulse: &Pulse, now: Option<AgentWall>) {
        let mut from = 0;
        for (at, moving) in &self.moving {
            html.push_str(self.still.get(from..*at).unwrap_or_default());
            write_moving(html, *moving, pulse, now);
            from = *at;
        }
        html.push_str(self.still.get(from..).unwrap_or_default());
    }
}

fn write_moving(html: &mut String, moving: Moving, pulse: &Pulse, now: Option<AgentWall>) {
    match moving {
        Moving::Since(moment) => write_time(html, "data-since", moment.wall, now, ""),
        Moving::Ago(moment) => write_time(html, "data-ago", moment.wall, now, " ago"),
        Moving::Progress => {
            if let Some(moved) = pulse.progress {
                write_time(html, "data-progress data-ago", moved, now, " ago");
            }
        }
        Moving::Lease => write_lease(html, pulse, now),
    }
}

fn write_time(
    html: &mut String,
    attribute: &str,
    at: AgentWall,
    now: Option<AgentWall>,
    after: &str,
) {
    let datetime = rfc3339(at.0).unwrap_or_default();
    let passed = now.map(|now| format!("{}{after}", running(from_to(at, now)))).unwrap_or_default();
    let _ = write!(html, "<time {attribute}=\"{}\" datetime=\"{datetime}\">{passed}</time>", at.0);
}

fn write_lease(html: &mut String, pulse: &Pulse, now: Option<AgentWall>) {
    let (Some(deadline), Some(lease_ms)) = (pulse.deadline, pulse.lease_ms) else { return };
    let left_ms = now.map(|now| from_to(now, deadline));
    let text = left_ms.map(running).unwrap_or_default();
    let value = left_ms.unwrap_or_default().min(lease_ms);
    let _ = write!(
        html,
        "<meter data-deadline=\"{}\" min=\"0\" low=\"{}\" max=\"{lease_ms}\" value=\"{value}\" \
         aria-label=\"Lease left\">\
         </meter> <span data-left>{text}</span>",
        deadline.0,
        lease_ms / LOW
    );
}

/// Milliseconds from one instant to a later one, else 0.
fn from_to(from: AgentWall, to: AgentWall) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or_default()
}
