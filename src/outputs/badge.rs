//! A task as a small picture for another page: its name and its verdict. Its size depends on the
//! name alone, so that the surrounding layout stays stable when the verdict changes.

use lockwatch_judge::problems::of_task;
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::Verdict;

use super::page::html::Text;
use crate::alerts::firing;
use crate::published::Published;
use crate::text::identity::escape;

const HEIGHT: usize = 20;
/// Maximum width of a letter in pixels, in a common sans-serif font of 11 px; `textLength` squeezes
/// wider ones.
const LETTER: usize = 7;
const PADDING: usize = 6;
/// Maximum number of letters of a name that are shown.
const LETTERS_MAX: usize = 40;
/// Width of the right half in pixels: enough for the longest verdict and its symbol.
const VERDICT_WIDTH: usize = 84;

/// The content of a badge.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    /// The verdict, and the page that fires.
    Verdict(Verdict, Option<&'static str>),
    /// The engine has stopped, so nothing is known.
    Stopped,
    Missing,
}

impl Says {
    fn word(self) -> &'static str {
        match self {
            Says::Verdict(verdict, _) => verdict.name(),
            Says::Stopped => Verdict::Unknown.name(),
            Says::Missing => "no such task",
        }
    }

    /// Colours on which white text has a contrast of 4.5 or more.
    fn colour(self) -> &'static str {
        match self {
            Says::Verdict(Verdict::Split | Verdict::Down | Verdict::Stalled, _)
            | Says::Verdict(_, Some(_)) => "#b42318",
            Says::Verdict(Verdict::Unwanted | Verdict::Pending, _) => "#8a4b00",
            Says::Verdict(Verdict::Unknown, _) | Says::Stopped => "#6b3fa0",
            Says::Verdict(Verdict::Running, _) => "#146c43",
            Says::Verdict(Verdict::Stopped, _) | Says::Missing => "#565c64",
        }
    }
}

impl Says {
    /// The badge of a task that is known.
    pub(crate) fn of(published: &Published, view: &TaskView) -> Says {
        let alerts = firing(&of_task(view, published.snapshot.at, None));
        let page = alerts.into_iter().find(|alert| alert.severity.is_page());
        Says::Verdict(view.verdict, page.map(|alert| alert.row.alert))
    }
}

/// The badge of this task, as SVG.
pub(crate) fn picture(name: &str, says: Says) -> String {
    let shown = escape(name.as_bytes());
    let mut label: String = shown.chars().take(LETTERS_MAX).collect();
    if label.len() < shown.len() {
        label.push('…');
    }
    let letters = label.chars().count().max(1) * LETTER;
    let left = letters + 2 * PADDING;
    let width = left + VERDICT_WIDTH;
    let (word, colour) = (says.word(), says.colour());
    let page = match says {
        Says::Verdict(_, Some(alert)) => format!(", {alert}"),
        _ => String::new(),
    };
    let (label, title) = (Text(&label), Text(&shown));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {width} {HEIGHT}\" \
         role=\"img\" aria-labelledby=\"title\"><title id=\"title\">{title}: {word}{page}</title>\
         <rect width=\"{width}\" height=\"{HEIGHT}\" rx=\"3\" fill=\"#30363d\"/>\
         <path d=\"M{left} 0H{round}a3 3 0 0 1 3 3V17a3 3 0 0 1-3 3H{left}z\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">\
         <text x=\"{PADDING}\" y=\"14\" textLength=\"{letters}\" \
         lengthAdjust=\"spacingAndGlyphs\">{label}</text>\
         <text x=\"{middle}\" y=\"14\" text-anchor=\"middle\">{word}</text></g></svg>",
        round = width - 3,
        middle = left + VERDICT_WIDTH / 2,
    )
}
