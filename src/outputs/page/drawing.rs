//! A timeline as an SVG picture to scale, and the same as a table.
//!
//! Positions along the axis are percentages, so that the picture fills the available width while
//! its text keeps its size.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use lockwatch_judge::event::End;
use lockwatch_judge::reading::Holder;
use lockwatch_judge::time::AgentWall;

use super::html::Text;
use super::timeline::{Instant, Mark, Span, Stretch, Timeline, What};
use super::words::{lasted, limit, running};
use crate::text::identity::{escape, holder_label, list};
use crate::text::instants::rfc3339;

/// Maximum number of holders with a lane of their own; others share the last one.
const HOLDERS_MAX: usize = 6;
/// Maximum number of holders named in one place.
const NAMED_MAX: usize = 4;
/// Height of a lane with its caption in pixels.
const LANE_HEIGHT: usize = 38;
/// Distance from a lane's top to its bar in pixels.
const BAR_TOP: usize = 18;
const BAR_HEIGHT: usize = 14;
const AXIS_HEIGHT: usize = 22;
/// Possible intervals between two ticks of the axis, in milliseconds.
const STEPS_MS: [i64; 11] = [
    5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000,
    21_600_000,
];
/// Maximum number of ticks that fit on a narrow screen.
const TICKS_MAX: i64 = 6;
/// The whole width.
const WHOLE: Place = Place(100_000);
/// Minimum width of a stretch, so that it stays visible.
const SEEN: Place = Place(250);
/// A tick nearer to an edge has no room for its text.
const EDGE: Place = Place(8_000);
/// Maximum number of rows of the table.
const ROWS_MAX: usize = 60;

/// What a drawing needs in addition to the timeline.
pub(super) struct Scale<'a> {
    /// The agent's wall clock at the end of the window.
    pub(super) wall: AgentWall,
    /// Hosts by instance, where known.
    pub(super) hosts: Vec<(&'a [u8], &'a [u8])>,
}

/// A lane of the picture.
struct Lane<'a> {
    title: String,
    class: &'static str,
    /// A fill pattern, so that stretches differ in more than colour.
    pattern: Option<&'static str>,
    stretches: Vec<&'a Stretch>,
    marks: Vec<(Instant, Mark)>,
}

/// Colour class and pattern of the holders' lanes.
const LOOKS: [(&str, Option<&str>); HOLDERS_MAX] = [
    ("h1", None),
    ("h2", Some("rising")),
    ("h3", Some("upright")),
    ("h4", Some("level")),
    ("h5", Some("grid")),
    ("h6", Some("falling")),
];

/// Added to the name of a lane that other holders share.
const OTHERS: &str = " and others";

const PATTERNS: &str = "<defs>\
    <pattern id=\"rising\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 \
    6L6 0\"/></pattern>\
    <pattern id=\"falling\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 \
    0L6 6\"/></pattern>\
    <pattern id=\"upright\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M3 \
    0V6\"/></pattern>\
    <pattern id=\"level\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 \
    3H6\"/></pattern>\
    <pattern id=\"grid\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 \
    3H6M3 0V6\"/></pattern>\
    </defs>";

/// A position along the axis, or a length, in thousandths of a percent of the window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(i64);

impl Place {
    /// The position of an instant in `window`.
    fn of(window: Span, at: Instant) -> Place {
        let length = window.to.saturating_sub(window.from).max(1);
        Place(at.saturating_sub(window.from).clamp(0, length).saturating_mul(WHOLE.0) / length)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:03}%", self.0 / 1000, self.0 % 1000)
    }
}

pub(super) fn picture(timeline: &Timeline, scale: &Scale<'_>) -> String {
    let window = timeline.window;
    let lanes = lanes(timeline, scale);
    let bottom = lanes.len() * LANE_HEIGHT;
    let mut svg = format!(
        "<svg class=\"timeline\" width=\"100%\" height=\"{}\" role=\"img\" \
         aria-labelledby=\"drawn described\">\
         <title id=\"drawn\">The last {}, drawn to scale.</title>\
         <desc id=\"described\">Holds, gaps, splits and what could not be read; the table below \
         says the same.</desc>",
        bottom + AXIS_HEIGHT,
        limit(length(window))
    );
    svg.push_str(PATTERNS);
    write_axis(&mut svg, window, scale, bottom);
    let not_known: Vec<Span> = timeline
        .stretches
        .iter()
        .filter(|stretch| stretch.what == What::NotKnown && stretch.span.from < stretch.span.to)
        .map(|stretch| stretch.span)
        .collect();
    for (index, lane) in lanes.iter().enumerate() {
        write_lane(&mut svg, window, lane, &not_known, index * LANE_HEIGHT);
    }
    svg.push_str("</svg>");
    svg
}

/// One lane per holder, in the order of their first hold; then the lanes that are not holds.
fn lanes<'a>(timeline: &'a Timeline, scale: &Scale<'_>) -> Vec<Lane<'a>> {
    let mut holders: Vec<(&[Holder], Lane<'a>)> = Vec::new();
    for stretch in &timeline.stretches {
        let What::Hold { holders: who, .. } = &stretch.what else { continue };
        let own = holders.iter().position(|(other, _)| same(other, who));
        match (own, LOOKS.get(holders.len())) {
            (None, Some((class, pattern))) => {
                let lane = Lane {
                    title: names(who, scale),
                    class,
                    pattern: *pattern,
                    stretches: vec![stretch],
                    marks: vec![],
                };
                holders.push((who, lane));
            }
            (own, _) => {
                let shared = HOLDERS_MAX - 1;
                let Some((_, lane)) = holders.get_mut(own.unwrap_or(shared)) else { continue };
                if own.is_none() && !lane.title.ends_with(OTHERS) {
                    lane.title.push_str(OTHERS);
                }
                lane.stretches.push(stretch);
            }
        }
    }
    let mut lanes: Vec<Lane<'a>> = holders.into_iter().map(|(_, lane)| lane).collect();
    for lane in &mut lanes {
        let renewals = timeline.marks.iter().filter(|(_, mark)| *mark == Mark::Renewal);
        let within = |(at, _): &&(Instant, Mark)| {
            lane.stretches.iter().any(|stretch| stretch.span.contains(*at))
        };
        lane.marks = renewals.filter(within).copied().collect();
    }
    let of_kind = |is_its: fn(&What) -> bool| {
        timeline.stretches.iter().filter(move |stretch| is_its(&stretch.what)).collect()
    };
    let ends = timeline.marks.iter().filter(|(_, mark)| *mark != Mark::Renewal).copied().collect();
    lanes.push(Lane {
        title: String::from("Nobody, though wanted"),
        class: "gap",
        pattern: None,
        stretches: of_kind(|what| *what == What::Gap),
        marks: ends,
    });
    lanes.push(Lane {
        title: String::from("More than one holder"),
        class: "split",
        pattern: Some("grid"),
        stretches: of_kind(|what| matches!(what, What::Split(_))),
        marks: Vec::new(),
    });
    lanes.push(Lane {
        title: String::from("Could not be read"),
        class: "unread",
        pattern: Some("falling"),
        stretches: of_kind(|what| matches!(what, What::Unreadable(_))),
        marks: Vec::new(),
    });
    lanes
}

fn same(one: &[Holder], other: &[Holder]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.client == other.client)
}

/// The holders: the instances, and their hosts where known.
fn names(holders: &[Holder], scale: &Scale<'_>) -> String {
    let name =
        |holder: &Holder| match scale.hosts.iter().find(|(client, _)| *client == holder.client) {
            Some((_, host)) => Cow::Owned(format!("{} on {}", holder_label(holder), escape(host))),
            None => Cow::Owned(holder_label(holder).into_owned()),
        };
    list(holders.iter().map(name), NAMED_MAX)
}

fn write_lane(svg: &mut String, window: Span, lane: &Lane<'_>, not_known: &[Span], top: usize) {
    let y = top + BAR_TOP;
    // Writing to a `String` cannot fail.
    let _ =
        write!(svg, "<text class=\"lane\" x=\"0\" y=\"{}\">{}</text>", y - 4, Text(&lane.title));
    let _ = write!(
        svg,
        "<rect class=\"ground\" x=\"0\" y=\"{y}\" width=\"100%\" height=\"{BAR_HEIGHT}\"/>"
    );
    for span in not_known {
        write_bar(svg, window, *span, ("dark", Some("falling")), (y, BAR_HEIGHT));
    }
    for stretch in &lane.stretches {
        write_bar(svg, window, stretch.span, (lane.class, lane.pattern), (y, BAR_HEIGHT));
    }
    let (above, below) = (y - 2, y + BAR_HEIGHT + 2);
    for (at, mark) in &lane.marks {
        let x = Place::of(window, *at);
        let _ = match mark {
            Mark::Renewal => {
                write!(
                    svg,
                    "<line class=\"renewal\" x1=\"{x}\" x2=\"{x}\" y1=\"{above}\" y2=\"{below}\"/>"
                )
            }
            Mark::Outage(_) => {
                write!(
                    svg,
                    "<line class=\"outage\" x1=\"{x}\" x2=\"{x}\" y1=\"{above}\" y2=\"{below}\"/>"
                )
            }
            Mark::Handover(_) => {
                write!(
                    svg,
                    "<circle class=\"handover\" cx=\"{x}\" cy=\"{}\" r=\"4\"/>",
                    y + BAR_HEIGHT / 2
                )
            }
        };
    }
}

fn write_bar(
    svg: &mut String,
    window: Span,
    span: Span,
    (class, pattern): (&str, Option<&str>),
    (y, height): (usize, usize),
) {
    let (from, to) = (Place::of(window, span.from), Place::of(window, span.to));
    let width = Place(to.0 - from.0).max(SEEN);
    let x = Place(from.0.min(WHOLE.0 - width.0));
    let place = format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
    let _ = write!(svg, "<rect class=\"{class}\" {place}/>");
    if let Some(pattern) = pattern {
        let _ = write!(svg, "<rect {place} fill=\"url(#{pattern})\"/>");
    }
}

/// Ticks at whole minutes or hours of the wall clock, and their times in UTC.
fn write_axis(svg: &mut String, window: Span, scale: &Scale<'_>, bottom: usize) {
    let length = window.to.saturating_sub(window.from).max(1);
    let step = STEPS_MS.into_iter().find(|step| length / step <= TICKS_MAX).unwrap_or(length);
    let end = scale.wall.0;
    let first = end.saturating_sub(length).div_euclid(step).saturating_add(1).saturating_mul(step);
    let ticks = (0..=TICKS_MAX + 1)
        .map(|tick| first.saturating_add(tick * step))
        .take_while(|tick| *tick <= end);
    for tick in ticks {
        let x = Place::of(window, window.to.saturating_sub(end.saturating_sub(tick)));
        let _ = write!(
            svg,
            "<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{}\"/>",
            bottom + 4
        );
        if x >= EDGE && x.0 <= WHOLE.0 - EDGE.0 {
            let text = clock(AgentWall(tick));
            let shown = if step % 60_000 == 0 { text.get(..5) } else { Some(text.as_str()) };
            let y = bottom + AXIS_HEIGHT - 4;
            let _ = write!(
                svg,
                "<text class=\"time\" x=\"{x}\" y=\"{y}\">{}</text>",
                shown.unwrap_or_default()
            );
        }
    }
    let _ = write!(
        svg,
        "<text class=\"zone\" x=\"100%\" y=\"{}\">UTC</text>",
        bottom + AXIS_HEIGHT - 4
    );
}

/// The time of day, in UTC.
fn clock(wall: AgentWall) -> String {
    let text = rfc3339(wall.0).unwrap_or_default();
    text.get(11..19).unwrap_or_default().to_owned()
}

fn length(span: Span) -> u64 {
    u64::try_from(span.to.saturating_sub(span.from)).unwrap_or_default()
}

/// The timeline as a table.
pub(super) fn table(timeline: &Timeline, scale: &Scale<'_>) -> String {
    let mut rows: Vec<(Instant, String)> = Vec::new();
    for stretch in &timeline.stretches {
        let Span { from, to } = stretch.span;
        let until = if stretch.open { String::from("goes on") } else { time(timeline, scale, to) };
        let from_text = if from == timeline.window.from {
            String::from("before")
        } else {
            time(timeline, scale, from)
        };
        let length = running(length(stretch.span));
        let what = Text(&words(&stretch.what, scale)).to_string();
        rows.push((from, row([what, from_text, until, length])));
    }
    for (at, mark) in &timeline.marks {
        let what = match mark {
            Mark::Renewal => continue,
            Mark::Handover(ms) => format!("Handover, {}", lasted(*ms)),
            Mark::Outage(ms) => format!("Outage, {}", lasted(*ms)),
        };
        rows.push((*at, row([what, time(timeline, scale, *at), String::new(), String::new()])));
    }
    rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let more = rows.len().saturating_sub(ROWS_MAX);
    let mut html = String::from(
        "<table class=\"stretches\"><caption>The same as a table, newest first; times in \
         UTC</caption><thead><tr>\
         <th scope=\"col\">What</th><th scope=\"col\">From</th><th scope=\"col\">To</th>\
         <th scope=\"col\">In this window</th></tr></thead><tbody>",
    );
    html.extend(rows.into_iter().take(ROWS_MAX).map(|(_, row)| row));
    html.push_str("</tbody></table>");
    if more > 0 {
        let _ = write!(html, "<p class=\"note\">{more} older ones are left out.</p>");
    }
    let renewals: Vec<Instant> = timeline
        .marks
        .iter()
        .filter(|(_, mark)| *mark == Mark::Renewal)
        .map(|(at, _)| *at)
        .collect();
    if let Some(last) = renewals.last() {
        let last = time(timeline, scale, *last);
        let _ = write!(
            html,
            "<p class=\"note\">Renewals: the newest {} are drawn, the last one at {last}.</p>",
            renewals.len()
        );
    }
    html
}

fn row([what, from, to, length]: [String; 4]) -> String {
    format!(
        "<tr><th scope=\"row\">{what}</th><td data-label=\"From\">{from}</td><td \
         data-label=\"To\">{to}</td>\
         <td data-label=\"In this window\">{length}</td></tr>"
    )
}

fn time(timeline: &Timeline, scale: &Scale<'_>, at: Instant) -> String {
    let wall = AgentWall(scale.wall.0.saturating_sub(timeline.window.to.saturating_sub(at)));
    format!("<time datetime=\"{}\">{}</time>", rfc3339(wall.0).unwrap_or_default(), clock(wall))
}

fn words(what: &What, scale: &Scale<'_>) -> String {
    match what {
        What::Hold { holders, start_seen, end } => {
            let began = if *start_seen { "" } else { ", since before it was watched" };
            let ended = end.map(|end| format!(", {}", end_words(end))).unwrap_or_default();
            format!("Held by {}{began}{ended}", names(holders, scale))
        }
        What::Gap => String::from("Nobody, though wanted"),
        What::Split(kind) => format!("More than one holder ({})", kind.name()),
        What::Unreadable(Some(why)) => format!("Could not be read ({})", why.name()),
        What::Unreadable(None) => String::from("Could not be read"),
        What::NotKnown => String::from("Not known: before the agent watched, or forgotten"),
    }
}

fn end_words(end: End) -> &'static str {
    match end {
        End::Expired => "expired",
        End::EndedEarly => "released",
        End::Replaced => "replaced",
        End::Lost => "lost by the store",
        End::Unknown => "ended unseen",
    }
}
