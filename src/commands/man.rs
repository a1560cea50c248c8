//! The man pages: one for the program and one for each command, from the definitions of the command
//! line.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::text::terminal;

/// Something to type, and what it does.
type Example = (&'static str, &'static str);

/// The program's own, and then those of the commands by their names.
const EXAMPLES: [(&str, &[Example]); 13] = [
    (
        "",
        &[
            (
                "lockwatch --redis redis://127.0.0.1:6379 --lock outbound:lock",
                "Watches one lock, without a file.",
            ),
            ("lockwatch --config.file /etc/lockwatch/lockwatch.yml", "Watches what is configured."),
            ("lockwatch status", "Shows how the tasks of that agent are."),
        ],
    ),
    (
        "check-config",
        &[(
            "lockwatch check-config --config.file lockwatch.yml --prometheus.config prometheus.yml",
            "Finds all mistakes at once and tells the worst time to page.",
        )],
    ),
    (
        "acl",
        &[(
            "lockwatch acl --config.file lockwatch.yml --redis-version 6.2",
            "Prints the read-only user's rule.",
        )],
    ),
    (
        "status",
        &[
            ("lockwatch status", "All tasks, worst first."),
            (
                "lockwatch status outbound --agent.url http://10.0.0.7:10379",
                "One task of another host's agent.",
            ),
            ("lockwatch status --watch=2s", "Looks every two seconds until Ctrl-C."),
            ("lockwatch status --json", "What the agent knows, for a script."),
        ],
    ),
    (
        "explain",
        &[
            ("lockwatch explain outbound", "The agent's own reasoning."),
            (
                "lockwatch explain outbound --once --config.file lockwatch.yml",
                "One look at Redis, without an agent.",
            ),
        ],
    ),
    (
        "guard",
        &[
            (
                "lockwatch guard outbound -- /opt/outbound/run.sh",
                "Runs the script of a task on one server, as long as users want it.",
            ),
            (
                "lockwatch guard --redis redis://10.0.0.5:6379 --lock nightly:lock -- ./report.sh",
                "Runs a script once, under a lock.",
            ),
        ],
    ),
    (
        "fence",
        &[("lockwatch fence outbound", "In such a script: whether its token is still the newest.")],
    ),
    (
        "want",
        &[
            ("lockwatch want outbound on --user anna", "Switches it on for anna."),
            ("lockwatch want outbound status", "Shows who wants it, and writes nothing."),
        ],
    ),
    (
        "replay",
        &[(
            "lockwatch replay /var/lib/lockwatch --set outbound.grace=40s",
            "What would have been judged with another threshold.",
        )],
    ),
    (
        "discover",
        &[(
            "lockwatch discover --redis redis://10.0.0.5:6379/0 --match 'outbound:*'",
            "A configuration for what is there.",
        )],
    ),
    (
        "completions",
        &[("lockwatch completions bash", "Prints what bash sources to complete the commands.")],
    ),
    (
        "man",
        &[(
            "lockwatch man --dir /usr/local/share/man/man1",
            "Writes all pages where man(1) finds them.",
        )],
    ),
    ("demo", &[("lockwatch demo --story", "Plays what can happen to a task.")]),
];

/// A term and what it means.
type Term = (&'static str, &'static str);

const EXIT_STATUS: [Term; 3] = [
    ("0", "Done; the agent was told to stop and did."),
    ("1", "It could not be done."),
    (
        "2",
        "The configuration or the command line is wrong. lockwatch-status(1) has codes of its own.",
    ),
];

const STATUS_EXIT_STATUS: [Term; 4] = [
    ("0", "No task and no store has a problem."),
    ("1", "Warning: one has a problem that warns."),
    ("2", "Critical: one has a problem that pages: a task is down, a lock was lost, and the like."),
    (
        "3",
        "Unknown: a task's verdict is unknown, the agent cannot be reached or has stopped, there \
         is no such task, or the command line is wrong. Of several tasks critical comes before \
         unknown, and unknown before warning. With --watch the code is that of the last look.",
    ),
];

const GUARD_EXIT_STATUS: [Term; 5] = [
    ("the script's own", "It ended, and is not started again."),
    ("64", "The configuration or the command line is wrong, or the lease is too short."),
    ("69", "Redis cannot be used."),
    ("70", "The lock was lost."),
    ("75", "The lock was not acquired in time."),
];

const FENCE_EXIT_STATUS: [Term; 4] = [
    ("0", "The lock is held under this token, and it is the newest one."),
    ("64", "The configuration or the command line is wrong."),
    ("69", "Redis cannot be used."),
    ("70", "The lock is not held under this token any more."),
];

const WANT_EXIT_STATUS: [Term; 4] = [
    ("0", "The switch is as asked, or was so before."),
    ("1", "Redis refuses, or it is not certain that the switch was written."),
    ("2", "The configuration or the command line is wrong."),
    ("69", "Redis cannot be reached."),
];

const FILES: [Term; 2] = [
    (
        "lockwatch.yml",
        "The configuration, in the working directory unless --config.file names another.",
    ),
    ("DIR of --record", "Recordings for lockwatch-replay(1); the oldest go first."),
];

const ENVIRONMENT: [Term; 1] = [(
    "VARIABLE of --redis.password-env",
    "A password; also the variables that the configuration names in password_env.",
)];

/// What `status` looks at.
const TERMINAL: [Term; 4] = [
    ("NO_COLOR", "Not empty: no colours."),
    (
        "CLICOLOR, CLICOLOR_FORCE",
        "0 and not 0: no colours on a terminal; colours also where there is none.",
    ),
    ("TERM", "dumb: no colours, and nothing is drawn in place."),
    (
        "COLUMNS",
        "How wide the output of status is where standard output is no terminal; 100 unless set.",
    ),
];

/// A page.
#[derive(Clone, Debug)]
pub struct ManPage {
    /// `lockwatch-status.1`.
    pub file: String,
    /// In roff.
    pub text: Vec<u8>,
}

/// Prints the page of the program, or writes all pages into `folder`.
///
/// # Errors
/// They cannot be printed, or not written.
pub fn run(folder: Option<&Path>, grammar: clap::Command) -> anyhow::Result<ExitCode> {
    let mut pages = pages(grammar)?;
    match folder {
        None => terminal::show(pages.swap_remove(0).text),
        Some(folder) => write(folder, pages).map(|()| ExitCode::SUCCESS),
    }
}

/// All pages of `grammar`; the program's own comes first.
///
/// # Errors
/// None that is known: nothing is written anywhere.
pub fn pages(grammar: clap::Command) -> io::Result<Vec<ManPage>> {
    let mut program = grammar.disable_help_subcommand(true);
    program.build();
    let mut names: Vec<String> =
        program.get_subcommands().map(|command| page_name(command.get_name())).collect();
    names.insert(0, page_name(""));
    let own = page(&program, &names, true);
    let commands = program.get_subcommands().map(|command| page(command, &names, false));
    std::iter::once(own).chain(commands).collect()
}

fn write(folder: &Path, pages: Vec<ManPage>) -> anyhow::Result<()> {
    for page in pages {
        let path = folder.join(page.file);
        fs::write(&path, page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn page_name(command: &str) -> String {
    if command.is_empty() { "lockwatch".to_owned() } else { format!("lockwatch-{command}") }
}

fn page(command: &clap::Command, names: &[String], of_program: bool) -> io::Result<ManPage> {
    let source = concat!("lockwatch ", env!("CARGO_PKG_VERSION"));
    // No day: the same program gives the same pages. Not quite empty: roff would take the next word
    // for it.
    let man = Man::new(command.clone()).date(" ").source(source).manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let name = if of_program { "" } else { command.get_name() };
    let mut more = Roff::new();
    if of_program {
        man.render_subcommands_section(&mut text)?;
        terms(&mut more, "EXIT STATUS", &EXIT_STATUS);
        terms(&mut more, "FILES", &FILES);
        let environment: Vec<Term> = ENVIRONMENT.into_iter().chain(TERMINAL).collect();
        terms(&mut more, "ENVIRONMENT", &environment);
    } else if name == "status" {
        terms(&mut more, "EXIT STATUS", &STATUS_EXIT_STATUS);
        terms(&mut more, "ENVIRONMENT", &TERMINAL);
    } else if name == "guard" {
        terms(&mut more, "EXIT STATUS", &GUARD_EXIT_STATUS);
    } else if name == "fence" {
        terms(&mut more, "EXIT STATUS", &FENCE_EXIT_STATUS);
    } else if name == "want" {
        terms(&mut more, "EXIT STATUS", &WANT_EXIT_STATUS);
    } else {
        terms(&mut more, "EXIT STATUS", &EXIT_STATUS);
    }
    terms(&mut more, "EXAMPLES", examples(name));
    let own = page_name(name);
    let others: Vec<String> =
        names.iter().filter(|other| **other != own).map(|other| format!("{other}(1)")).collect();
    more.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    more.to_writer(&mut text)?;
    Ok(ManPage { file: man.get_filename(), text })
}

fn examples(command: &str) -> &'static [Example] {
    EXAMPLES
        .iter()
        .find(|(name, _)| *name == command)
        .map(|(_, examples)| *examples)
        .unwrap_or_default()
}

fn terms(roff: &mut Roff, heading: &str, terms: &[Term]) {
    roff.control("SH", [heading]);
    for (term, meaning) in terms {
        roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn every_example_can_be_typed_and_every_command_has_one() {
        for (name, examples) in EXAMPLES {
            for (line, _) in examples {
                let words = line.split_whitespace().map(|word| word.trim_matches('\''));
                assert!(cli::parse(words).is_ok(), "{line}");
            }
            assert!(!examples.is_empty(), "{name}");
        }
        for command in cli::grammar().get_subcommands() {
            assert!(!examples(command.get_name()).is_empty(), "{}", command.get_name());
        }
    }
}
