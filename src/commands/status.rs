//! `lockwatch status`: the agent's view of the tasks, for a terminal, a script or a monitoring
//! check.

mod judge;
mod one;
mod plugin;
mod screen;
mod table;
mod words;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Args, ValueHint};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use judge::Level;
use screen::Screen;

use super::ask::AgentArguments;
use crate::api::{Error, OneTask, Seconds, TaskList};
use crate::commands::stop::Stop;
use crate::http::client::Answer;
use crate::paths;
use crate::text::durations::parse_duration_ms;
use crate::text::terminal::{self, Style, Terminal, safe, safe_json};

/// Time limit for the agent's response: below the ten seconds that monitoring systems usually allow
/// a check.
const PATIENCE: Duration = Duration::from_secs(9);
/// Maximum characters of a refusal that are shown.
const REFUSAL_MAX: usize = 300;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct StatusOptions {
    /// Only this task
    #[arg(value_name = "TASK", value_hint = ValueHint::Other)]
    pub task: Option<String>,
    /// How the agent is reached.
    #[command(flatten)]
    pub agent: AgentArguments,
    /// Print the agent's JSON
    #[arg(long)]
    pub json: bool,
    /// Print as monitoring plugins do: a summary first, all on standard output, with performance
    /// data
    #[arg(long, conflicts_with_all = ["json", "watch_ms"])]
    pub plugin: bool,
    /// Show it again and again, with this pause, until Ctrl-C
    #[arg(long = "watch", value_name = "PAUSE", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = watch_pause)]
    pub watch_ms: Option<u64>,
}

/// A pause that leaves the agent some time for others.
fn watch_pause(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ..100 => Err("must be at least 100ms".to_owned()),
        pause_ms => Ok(pause_ms),
    }
}

/// Runs the command and returns its exit code.
///
/// # Errors
/// Nothing is known; text for a person. The exit code for it is that of [`Exit::Unknown`](crate::exit::Exit::Unknown).
pub async fn run(options: StatusOptions) -> anyhow::Result<ExitCode> {
    if let Some(warning) = options.agent.access.warning() {
        eprintln!("warning: {warning}");
    }
    let level = match options.watch_ms {
        None => {
            let look = look(&options).await.inspect_err(|error| deny(&options, error))?;
            terminal::print(printed(&options, &look)).context("cannot print it")?;
            look.level
        }
        Some(pause_ms) => watch(&options, Duration::from_millis(pause_ms)).await?,
    };
    Ok(level.exit().into())
}

/// Says on standard output that nothing is known: monitors show nothing else. On a terminal and
/// with JSON the words on standard error are enough.
fn deny(options: &StatusOptions, error: &anyhow::Error) {
    if options.plugin || !(options.json || std::io::stdout().is_terminal()) {
        let _closed = terminal::print(plugin::unknown(&format!("{error:#}")) + "\n");
    }
}

/// Says to a monitor that its command line is wrong.
pub fn refuse(why: &str) {
    let _closed = terminal::print(plugin::unknown(&safe(why)) + "\n");
}

struct Look {
    body: String,
    view: View,
    level: Level,
}

enum View {
    All(Box<TaskList>),
    One(Box<OneTask>),
}

async fn look(options: &StatusOptions) -> anyhow::Result<Look> {
    let path = match &options.task {
        None => paths::TASKS.to_owned(),
        Some(task) => paths::TASK.of(task),
    };
    let answer = options.agent.get(&path, PATIENCE).await?;
    if answer.status != 200 {
        bail!("the agent at {}: {}", safe(&options.agent.agent_url), refusal(&answer, options));
    }
    read(answer, options.task.is_some()).with_context(|| {
        format!("{}: that is no answer of an agent's", safe(&options.agent.agent_url))
    })
}

/// The output for a response of this `body`, about one task or all of them.
///
/// # Errors
/// It is not a response of an agent.
pub fn printed_for(body: Vec<u8>, options: &StatusOptions) -> anyhow::Result<String> {
    Ok(printed(
        options,
        &read(
            Answer { status: 200, body: body.into(), ..Answer::default() },
            options.task.is_some(),
        )?,
    ))
}

fn read(answer: Answer, one: bool) -> anyhow::Result<Look> {
    let body = String::from_utf8(answer.body.into())?;
    let view = match one {
        false => View::All(serde_json::from_str(&body).map_err(harmless)?),
        true => View::One(Box::new(serde_json::from_str(&body).map_err(harmless)?)),
    };
    let level = match &view {
        View::All(answer) => {
            let of_patterns = answer.patterns.iter().map(judge::of_pattern).max();
            let worst = judge::worst(&answer.tasks, &answer.stores);
            worst.max(of_patterns.unwrap_or(Level::Ok))
        }
        View::One(answer) => judge::worst([&answer.task], &[]),
    };
    Ok(Look { body, view, level })
}

/// Errors of serde may quote the response, so they are escaped.
fn harmless(error: serde_json::Error) -> anyhow::Error {
    anyhow::Error::msg(safe(&error.to_string()).into_owned())
}

fn refusal(answer: &Answer, options: &StatusOptions) -> String {
    let said = serde_json::from_slice(&answer.body).map(|refused: Error| refused.error.to_string());
    match (answer.status, &options.task, said) {
        (404, Some(task), Ok(_)) => {
            format!("there is no task {}; `lockwatch status` lists them", safe(task))
        }
        (_, _, Ok(said)) => terminal::cut(&said, REFUSAL_MAX).into_owned(),
        (status, _, Err(_)) => format!("it answers {status}, which no agent does here"),
    }
}

/// The output when nothing is drawn in place.
fn printed(options: &StatusOptions, look: &Look) -> String {
    if options.json {
        // The agent's own JSON is on one line and harmless, but a proxy may have changed it.
        return safe_json(look.body.trim_end()).into_owned() + "\n";
    }
    if options.plugin {
        let (tasks, stores, patterns) = match &look.view {
            View::All(answer) => (&answer.tasks[..], &answer.stores[..], &answer.patterns[..]),
            View::One(answer) => (std::slice::from_ref(&answer.task), &[][..], &[][..]),
        };
        let lines = plugin::render(tasks, stores, patterns, table::oldest(tasks));
        return lines.join("\n") + "\n";
    }
    let terminal = Terminal { lines: None, ..Terminal::now() };
    lines(options, look, &terminal).join("\n") + "\n"
}

fn lines(options: &StatusOptions, look: &Look, terminal: &Terminal) -> Vec<String> {
    match &look.view {
        View::All(answer) => table::render(answer, terminal),
        View::One(answer) => one::render(answer, &hint(options, &answer.task.name), terminal),
    }
}

/// The command that explains the verdict.
fn hint(options: &StatusOptions, task: &str) -> String {
    let flag = |(flag, value): (_, String)| format!(" {flag} {}", quoted(&safe(&value)));
    let agent: String = options.agent.flags().into_iter().map(flag).collect();
    let no_flag = if task.starts_with('-') { "-- " } else { "" };
    format!("lockwatch explain{agent} {no_flag}{}", quoted(task))
}

/// Quotes text as one word for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/@%+=,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The state of `--watch`.
struct Seen {
    /// The newest response, and when it arrived.
    last: Option<(Look, Instant)>,
    /// Why there was none since, if so.
    trouble: Option<String>,
}

impl Seen {
    fn note(&mut self, looked: anyhow::Result<Look>) {
        match looked {
            Ok(look) => *self = Seen { last: Some((look, Instant::now())), trouble: None },
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
    }

    fn level(&self) -> Level {
        match (&self.last, &self.trouble) {
            (Some((look, _)), None) => look.level,
            _ => Level::Unknown,
        }
    }

    /// A line that reports that the agent does not respond, if so.
    fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.as_ref()?;
        let since = self.last.as_ref().map(|(_, at)| words::duration(since(*at)));
        let since = since.map(|since| format!(", for {since}")).unwrap_or_default();
        Some(format!("? no answer{since} ({trouble}); trying again"))
    }
}

fn since(at: Instant) -> Seconds {
    Seconds(u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Repeats until a signal, or until the output is closed. Returns the level of the last response.
async fn watch(options: &StatusOptions, pause: Duration) -> anyhow::Result<Level> {
    let mut stop = Stop::listen()?;
    let mut resized = signal(SignalKind::window_change()).context("cannot listen for signals")?;
    let in_place = !options.json && Terminal::now().lines.is_some();
    let screen = in_place.then(Screen::open).transpose().context("cannot draw")?;
    let mut seen = Seen { last: None, trouble: None };
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(seen.level()),
            looked = look(options) => seen.note(looked),
        }
        let read = match &screen {
            Some(screen) => screen.draw(&frame(options, &seen)).is_ok(),
            None => append(options, &seen)?,
        };
        if !read {
            return Ok(seen.level());
        }
        let next = sleep(pause);
        tokio::pin!(next);
        loop {
            tokio::select! {
                () = stop.requested() => return Ok(seen.level()),
                _ = resized.recv() => {
                    // If it cannot be drawn, the next look ends this.
                    let _ = screen.as_ref().map(|screen| screen.draw(&frame(options, &seen)));
                }
                () = &mut next => break,
            }
        }
    }
}

/// The lines to draw in place now.
fn frame(options: &StatusOptions, seen: &Seen) -> Vec<String> {
    let mut terminal = Terminal::now();
    let trouble = seen
        .trouble()
        .map(|trouble| terminal::wrap(&trouble, terminal.columns))
        .unwrap_or_default();
    terminal.lines = terminal.lines.map(|lines| lines.saturating_sub(trouble.len()));
    let trouble = trouble.iter().map(|line| terminal.paint(Style::Unknown, line).into_owned());
    let view =
        seen.last.as_ref().map(|(look, _)| lines(options, look, &terminal)).unwrap_or_default();
    trouble.chain(view).collect()
}

/// Prints the newest response below earlier ones. Returns whether the output is still open.
fn append(options: &StatusOptions, seen: &Seen) -> anyhow::Result<bool> {
    let read = match (seen.trouble(), &seen.last) {
        (Some(trouble), _) if options.json => {
            eprintln!("lockwatch: {trouble}");
            Ok(true)
        }
        (Some(trouble), _) => terminal::print(trouble + "\n\n"),
        (None, Some((look, _))) if options.json => terminal::print(printed(options, look)),
        (None, Some((look, _))) => terminal::print(printed(options, look) + "\n"),
        (None, None) => Ok(true),
    };
    read.context("cannot print it")
}

#[cfg(test)]
mod tests {
    use super::super::ask::DEFAULT_AGENT;
    use super::*;

    #[test]
    fn the_hint_can_be_pasted() {
        let options = |agent: &str| StatusOptions {
            task: None,
            agent: AgentArguments::at(agent),
            json: false,
            plugin: false,
            watch_ms: None,
        };
        let here = options(DEFAULT_AGENT);
        assert_eq!(hint(&here, "outbound"), "lockwatch explain outbound");
        assert_eq!(hint(&here, "a b'; rm -rf ~"), r"lockwatch explain 'a b'\''; rm -rf ~'");
        assert_eq!(hint(&here, "-x"), "lockwatch explain -- -x");
        assert_eq!(hint(&options("http://h:1"), "a"), "lockwatch explain --agent.url http://h:1 a");
    }

    #[test]
    fn a_watch_that_gets_no_answer_knows_nothing() {
        let answer = || Answer {
            status: 200,
            body: r#"{"tasks":[{"verdict":"running","problems":[]}]}"#.into(),
            ..Answer::default()
        };
        let mut seen = Seen { last: None, trouble: None };
        assert_eq!(seen.level(), Level::Unknown);
        seen.note(read(answer(), false));
        assert_eq!((seen.level(), seen.trouble()), (Level::Ok, None));
        seen.note(Err(anyhow::anyhow!("away")));
        assert_eq!(seen.level(), Level::Unknown);
        assert!(seen.trouble().unwrap().contains("(away); trying again"));
        assert!(seen.last.is_some(), "what was seen stays");
        seen.note(read(answer(), false));
        assert_eq!(seen.trouble(), None);
    }
}
