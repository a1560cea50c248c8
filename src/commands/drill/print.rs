//! What the command prints: a line for each hop, then a conclusion.

use super::hop::Hop;
use super::machine::Outcome;
use crate::chain::Trouble;
use crate::clock::Clock;
use crate::exit::Exit;
use crate::text::terminal::{self, Style, Terminal, pad, safe, width, wrap};

/// The widest line, if no word is longer.
const COLUMNS: usize = 80;
/// Of a hop's line, before its words.
const INDENT: usize = 24;

/// Prints to standard output.
pub(super) struct Printer(Terminal);

impl Printer {
    pub(super) fn new() -> Printer {
        Printer(Terminal::now())
    }

    /// A paragraph.
    pub(super) fn line(&self, words: &str) {
        self.paragraph("", words);
    }

    pub(super) fn warning(&self, words: &str) {
        self.paragraph(&self.0.paint(Style::Warning, "warning: "), words);
    }

    /// A hop that was passed.
    pub(super) fn passed(&self, clock: Clock, hop: Hop, words: &str) {
        self.hop(Some(clock), hop, Style::Good, words);
    }

    /// A hop that was not, with what to do. Before a drill begins there is no time.
    pub(super) fn failed(&self, clock: Option<Clock>, hop: Hop, trouble: &Trouble) -> Exit {
        let Trouble { saw, remedy } = trouble;
        let after = clock.map(|clock| format!("after {}: ", seconds(clock.now().ms())));
        self.hop(None, hop, Style::Critical, &(after.unwrap_or_default() + saw));
        if !remedy.is_empty() {
            self.paragraph("What to do: ", remedy);
        }
        Exit::Failure
    }

    pub(super) fn interrupted(&self, words: &str) -> Exit {
        self.paragraph("Interrupted. ", words);
        Exit::Failure
    }

    /// How a drill went that reached Alertmanager, and what it leaves open.
    pub(super) fn concluded(&self, outcome: &Outcome, took_ms: u64, more: Vec<String>) -> Exit {
        let exit = match outcome {
            Outcome::Unseen(why) => {
                self.line(&format!(
                    "Accepted by Alertmanager after {}; that it was delivered was not seen: {why}.",
                    seconds(took_ms)
                ));
                Exit::Unknown
            }
            _ => {
                self.line(&format!("Notified after {}.", seconds(took_ms)));
                Exit::Success
            }
        };
        let always = [
            "that a person reads what the receiver took",
            "routes and inhibitions that match `task`: here it is lockwatch-drill",
        ];
        let all = always.map(str::to_owned).into_iter().chain(more);
        self.line(&format!("Not proved: {}.", all.collect::<Vec<_>>().join("; ")));
        exit
    }

    fn hop(&self, clock: Option<Clock>, hop: Hop, style: Style, words: &str) {
        let at = clock.map_or_else(|| "failed".to_owned(), |clock| seconds(clock.now().ms()));
        let name = self.0.paint(style, hop.name());
        let fill = " ".repeat(INDENT.saturating_sub(10 + width(hop.name())));
        let lines = wrapped(words, COLUMNS - INDENT);
        let words = lines.join(&format!("\n{}", " ".repeat(INDENT)));
        print(&format!("{:>8}  {name}{fill}{words}\n", pad(&at, 0)));
    }

    fn paragraph(&self, first: &str, words: &str) {
        print(&(wrapped(&format!("{first}{words}"), COLUMNS).join("\n") + "\n"));
    }
}

/// Lines between words; a longer word has a longer line, for it is to be copied.
fn wrapped(words: &str, columns: usize) -> Vec<String> {
    let longest = words.split(' ').map(width).max().unwrap_or(0);
    wrap(words, columns.max(longest))
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn print(text: &str) {
    let lines = text.split('\n').map(safe).collect::<Vec<_>>().join("\n");
    // Nobody reads it: the drill goes on to its end.
    let _closed = terminal::print(lines);
}
