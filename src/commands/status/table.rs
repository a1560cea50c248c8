//! All tasks as a table that fits the terminal: worst first, with less important columns shortened
//! or left out.

use std::cmp::Reverse;

use super::judge::{Judgement, counts, judge};
use super::words::{duration, held_for, how_long, instant, lease_left, short_holders, wanted, why};
use crate::api::{Seconds, Store, Task, TaskList};
use crate::outputs::describe::{drill, pattern};
use crate::text::terminal::{Style, Terminal, cut, pad, width, wrap};

/// Columns between two columns of the table.
const GAP: usize = 2;

#[derive(Clone, Copy)]
struct Least {
    comfortable: usize,
    bearable: usize,
}

struct Column {
    heading: &'static str,
    /// The minimum widths before other columns are left out, and before this one is; `None`: it is
    /// never cut.
    least: Option<Least>,
    /// The width that it gets before others grow further.
    fair: usize,
    /// Columns with the greatest number are left out first when there is no room; 0: never.
    leaves: u8,
}

const COLUMNS: [Column; 7] = [
    Column { heading: "VERDICT", least: None, fair: 0, leaves: 0 },
    Column {
        heading: "TASK",
        least: Some(Least { comfortable: 12, bearable: 10 }),
        fair: 24,
        leaves: 0,
    },
    Column {
        heading: "WHY",
        least: Some(Least { comfortable: 26, bearable: 15 }),
        fair: 50,
        leaves: 1,
    },
    Column {
        heading: "HOLDER",
        least: Some(Least { comfortable: 12, bearable: 9 }),
        fair: 20,
        leaves: 2,
    },
    Column { heading: "HELD FOR", least: None, fair: 0, leaves: 3 },
    Column { heading: "LEASE LEFT", least: None, fair: 0, leaves: 4 },
    Column { heading: "WANTED", least: None, fair: 0, leaves: 5 },
];

/// The columns that shrink and grow, in the order in which they get remaining room.
const FLEXIBLE: [usize; 3] = [2, 1, 3];

type Cells = [String; COLUMNS.len()];

/// The lines of the whole view.
pub(super) fn render(answer: &TaskList, terminal: &Terminal) -> Vec<String> {
    let mut tasks: Vec<(&Task, Judgement)> =
        answer.tasks.iter().map(|task| (task, judge(task))).collect();
    tasks.sort_by_key(|(task, judgement)| (judgement.rank, &task.name, &task.store));
    let notes = notes(answer, terminal);
    let shown = terminal.lines.map_or(tasks.len(), |lines| {
        // Besides the heading, keep one line for the number of hidden tasks and one free.
        let room = lines.saturating_sub(notes.len() + 2).max(1);
        if tasks.len() <= room { tasks.len() } else { room.saturating_sub(1) }
    });
    let (rows, rest) = tasks.split_at(shown.min(tasks.len()));
    let mut lines = table(rows, terminal);
    if !rest.is_empty() {
        lines.push(cut(&format!("… and {} more", rest.len()), terminal.columns).into_owned());
    }
    lines.extend(notes);
    lines
}

fn table(rows: &[(&Task, Judgement)], terminal: &Terminal) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let cells: Vec<Cells> = rows.iter().map(|(task, judgement)| cells(task, judgement)).collect();
    let headings = COLUMNS.map(|column| column.heading.to_owned());
    let widths = widths(&natural(&headings, &cells), terminal.columns);
    let heading = line(&headings, &widths, terminal, Style::Heading, |_| true);
    let styled = cells.iter().zip(rows);
    let lines = styled.map(|(cells, (_, judgement))| {
        line(cells, &widths, terminal, judgement.style, |at| at == 0)
    });
    std::iter::once(heading).chain(lines).collect()
}

fn cells(task: &Task, judgement: &Judgement) -> Cells {
    let hold = task.hold();
    [
        format!("{} {}", judgement.mark, cut(&task.verdict, 12)),
        task.name.to_string(),
        [problems(task), why(task)].concat(),
        hold.map(short_holders).unwrap_or_default(),
        hold.map(held_for).unwrap_or_default(),
        hold.map(|hold| lease_left(task, hold)).unwrap_or_default(),
        wanted(task),
    ]
}

/// The problems that verdict and reason do not name.
fn problems(task: &Task) -> String {
    let others = task.problems().iter().filter(|problem| *problem.problem != *task.verdict);
    others.map(|problem| format!("{} {}. ", problem.alert, how_long(problem))).collect()
}

/// The natural width of each column; 0 for an empty one.
fn natural(headings: &Cells, cells: &[Cells]) -> [usize; COLUMNS.len()] {
    let mut widths = [0; COLUMNS.len()];
    for row in cells {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    for (widest, heading) in widths.iter_mut().zip(headings).filter(|(widest, _)| **widest > 0) {
        *widest = width(heading).max(*widest);
    }
    widths
}

/// The width of each column; `None` for one that is left out.
fn widths(natural: &[usize; COLUMNS.len()], room: usize) -> [Option<usize>; COLUMNS.len()] {
    let mut places: Vec<(usize, &Column, usize)> = COLUMNS
        .iter()
        .zip(natural)
        .enumerate()
        .map(|(place, (column, natural))| (place, column, *natural))
        .collect();
    places.retain(|(_, column, natural)| *natural > 0 || column.leaves == 0);
    let least = |column: &Column, natural: usize| {
        column.least.map_or(natural, |least| natural.min(least.bearable))
    };
    let comfortable = |column: &Column, natural: usize| {
        column.least.map_or(natural, |least| natural.min(least.comfortable))
    };
    places.sort_by_key(|(place, column, _)| (Reverse(column.leaves), *place));
    while places.first().is_some_and(|(_, column, _)| column.leaves > 1)
        && total(&places, comfortable) > room
    {
        places.remove(0);
    }
    while places.first().is_some_and(|(_, column, _)| column.leaves > 0)
        && total(&places, least) > room
    {
        places.remove(0);
    }
    let mut left = room.saturating_sub(total(&places, least));
    let mut widths = [None; COLUMNS.len()];
    for (place, column, natural) in &places {
        if let Some(width) = widths.get_mut(*place) {
            *width = Some(least(column, *natural));
        }
    }
    // First up to the fair width, then up to the natural one.
    for fair in [true, false] {
        for place in FLEXIBLE {
            let Some((_, column, natural)) = places.iter().find(|(other, _, _)| *other == place)
            else {
                continue;
            };
            let wish = if fair { column.fair.min(*natural) } else { *natural };
            if let Some(Some(width)) = widths.get_mut(place) {
                let more = wish.saturating_sub(*width).min(left);
                *width += more;
                left -= more;
            }
        }
    }
    widths
}

/// The total width of columns with their gaps.
fn total(places: &[(usize, &Column, usize)], width: impl Fn(&Column, usize) -> usize) -> usize {
    places
        .iter()
        .map(|(_, column, natural)| width(column, *natural) + GAP)
        .sum::<usize>()
        .saturating_sub(GAP)
}

/// One line; never wider than the terminal.
fn line(
    cells: &Cells,
    widths: &[Option<usize>; COLUMNS.len()],
    terminal: &Terminal,
    style: Style,
    is_styled: impl Fn(usize) -> bool,
) -> String {
    let shown: Vec<(usize, &String, usize)> = cells
        .iter()
        .zip(widths)
        .enumerate()
        .filter_map(|(place, (cell, columns))| columns.map(|columns| (place, cell, columns)))
        .collect();
    let mut line = String::new();
    let mut left = terminal.columns;
    for (number, (place, cell, columns)) in shown.iter().enumerate() {
        let text = cut(cell, (*columns).min(left)).into_owned();
        let is_last = number + 1 == shown.len();
        let text = if is_last { text } else { pad(&text, (*columns).min(left)) };
        left = left.saturating_sub(columns + GAP);
        line.push_str(&if is_styled(*place) {
            terminal.paint(style, &text)
        } else {
            text.as_str().into()
        });
        if left > 0 && !is_last {
            line.push_str(&" ".repeat(GAP));
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// The lines below the table: unreadable stores, the age of the data, and the counts.
fn notes(answer: &TaskList, terminal: &Terminal) -> Vec<String> {
    let mut lines = Vec::new();
    for store in &answer.stores {
        lines.extend(unreadable(store, terminal));
    }
    if let Some(running) = &answer.drill {
        lines.extend(wrap(&drill(running), terminal.columns));
    }
    for of in &answer.patterns {
        let text = format!("pattern {}: {}", of.name, pattern(of));
        lines.extend(wrap(&text, terminal.columns));
    }
    lines.extend(wrap(&age(answer), terminal.columns));
    let count = match answer.tasks.len() {
        0 => "no tasks".to_owned(),
        1 => format!("1 task: {}", counts(&answer.tasks)),
        tasks => format!("{tasks} tasks: {}", counts(&answer.tasks)),
    };
    lines.extend(wrap(&count, terminal.columns));
    lines
}

fn unreadable(store: &Store, terminal: &Terminal) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |text: String| {
        let wrapped = wrap(&text, terminal.columns);
        lines.extend(wrapped.iter().map(|line| terminal.paint(Style::Unknown, line).into_owned()));
    };
    match (store.readable, &store.unknown) {
        (Some(true), _) => {}
        (Some(false), why) => {
            let long = duration(store.blind_seconds);
            let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            say(format!("? store {} cannot be read for {long}{why}", store.name));
        }
        (None, _) => say(format!("? store {} has not been asked yet", store.name)),
    }
    // For a single server, the line of the store already says it.
    let is_named = store.nodes.len() == 1 && store.readable == Some(false);
    for node in store.nodes.iter().filter(|node| node.up == Some(false) && !is_named) {
        let why = node.unknown.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        say(format!("? server {} of store {} cannot be read{why}", node.address, store.name));
    }
    lines
}

/// The age of the oldest reading.
pub(super) fn oldest(tasks: &[Task]) -> Option<Seconds> {
    tasks.iter().filter_map(|task| task.evidence_age_seconds).max()
}

/// The age of the shown data.
fn age(answer: &TaskList) -> String {
    let never = answer.tasks.iter().filter(|task| task.evidence_age_seconds.is_none()).count();
    let mut parts = Vec::new();
    if answer.at.0.is_some() {
        parts.push(format!("as of {} by the agent's clock", instant(answer.at)));
    }
    if let Some(oldest) = oldest(&answer.tasks) {
        parts.push(format!("oldest reading {}", duration(oldest)));
    }
    if never > 0 {
        parts.push(format!("{never} never read"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> TaskList {
        serde_json::from_str(
            r#"{"at":"2026-01-31T23:59:59.999Z","tasks":[
            {"name":"b","verdict":"running","problems":[],"reason":"The lock is held. Users want the task (1 of 2).","wanted":"yes",
             "switches":[{"user":"anna","state":"on"},{"user":"ben","state":"off"}],"evidence_age_seconds":0.4,
             "lock":{"hold":{"holders":[{"holder":"h","host":"wh-app-01"},{"holder":"i"}],"held_seconds":11520,"ttl_seconds":21.5}}},
            {"name":"a","verdict":"running","problems":[],"reason":"The lock is held.","wanted":"unset",
             "lock":{"hold":{"holders":[{"holder":"h"}],"acquired":"2026-01-31T23:59:56.999Z","held_seconds":3,"persistent":true}}},
            {"name":"出荷e\u0301","verdict":"down","problems":[{"problem":"down","severity":"critical"}],"reason":"Users want it, and nobody has held the lock for longer than grace.","wanted":"yes"}],
            "stores":[{"name":"main","readable":true},
             {"name":"other","readable":false,"blind_seconds":75,"unknown":{"reason":"auth","remedy":"check the password"},
              "nodes":[{"address":"10.0.0.5:6379","up":false},{"address":"10.0.0.6:6379","up":true}]}]}"#,
        )
        .unwrap()
    }

    fn shown(columns: usize) -> Vec<String> {
        render(&answer(), &Terminal { columns, lines: None, colours: false })
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        let expected = "\
VERDICT     TASK   WHY                                                                 \
            HOLDER           HELD FOR  LEASE LEFT  WANTED
!! down     出荷e\u{301}  Users want it, and nobody has held the lock for longer than \
            grace.                                         yes
ok running  a      The lock is held.                                                   \
            h                3.0s      no TTL      -
ok running  b      The lock is held. Users want the task (1 of 2).                     2: \
            wh-app-01, i  ≥3h12m    21s         yes 1/2
? store other cannot be read for 1m15s (auth: check the password)
? server 10.0.0.5:6379 of store other cannot be read
as of 2026-01-31 23:59:59 UTC by the agent's clock, oldest reading 0.4s, 2 never read
3 tasks: 1 down, 2 running";
        assert_eq!(shown(200).join("\n"), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_important_columns_stay() {
        for columns in 1..200 {
            for line in shown(columns) {
                assert!(width(&line) <= columns, "{columns}: {line}");
            }
        }
        let heading = |columns| shown(columns)[0].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(heading(40), "VERDICT TASK WHY");
        assert_eq!(heading(80), "VERDICT TASK WHY HOLDER HELD FOR");
        assert_eq!(heading(25), "VERDICT TASK");
    }

    #[test]
    fn a_frame_fits_the_screen_and_says_what_is_missing() {
        let mut answer = answer();
        for number in 0..100 {
            let task =
                format!("{{\"name\":\"{number:03}\",\"verdict\":\"stopped\",\"problems\":[]}}");
            answer.tasks.push(serde_json::from_str(&task).unwrap());
        }
        let lines = render(&answer, &Terminal { columns: 100, lines: Some(24), colours: false });
        assert_eq!(lines.len(), 23);
        assert!(lines[1].starts_with("!! down"));
        assert!(lines.iter().any(|line| line == "… and 86 more"), "{lines:#?}");
        assert_eq!(lines[22], "103 tasks: 1 down, 2 running, 100 stopped");
        for height in 1..8 {
            assert!(
                !render(&answer, &Terminal { columns: 100, lines: Some(height), colours: false })
                    .is_empty()
            );
        }
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let coloured = render(&answer(), &Terminal { columns: 80, lines: None, colours: true });
        let plain: Vec<String> = coloured.iter().map(|line| without_colours(line)).collect();
        assert_eq!(plain, shown(80));
        assert!(coloured[1].starts_with("\x1b[1;31m!! down"), "{:?}", coloured[1]);
    }

    fn without_colours(line: &str) -> String {
        let mut parts = line.split('\x1b');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
    }
}
