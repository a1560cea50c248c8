//! The command line as documented and packaged: completions in a real shell, man pages,
//! docs/commands.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use clap::{Arg, ValueHint};
use lockwatch::cli::{self, grammar};
use lockwatch::commands::man;
use lockwatch::exit;
use tempfile::TempDir;

use crate::support::agent::program;
use crate::support::skip;

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];
/// Internal arguments, which neither help nor completions offer.
const HIDDEN: [&str; 1] = ["demo-script"];
/// Arguments that clap adds.
const BY_ITSELF: [&str; 2] = ["help", "version"];

fn run(arguments: &[&str]) -> Output {
    let output = program().args(arguments).stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

fn printed(arguments: &[&str]) -> String {
    String::from_utf8(run(arguments).stdout).unwrap()
}

/// The program (with an empty name) and its commands, each with its own arguments.
fn commands() -> Vec<(String, Vec<Arg>)> {
    let program = grammar();
    let own = |command: &clap::Command| {
        command
            .get_arguments()
            .filter(|argument| !BY_ITSELF.contains(&argument.get_id().as_str()))
            .cloned()
            .collect()
    };
    let commands =
        program.get_subcommands().map(|command| (command.get_name().to_owned(), own(command)));
    std::iter::once((String::new(), own(&program))).chain(commands).collect()
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

#[test]
fn everything_says_what_it_is_and_files_are_completed_as_files() {
    let paths = [ValueHint::FilePath, ValueHint::DirPath, ValueHint::AnyPath];
    for command in grammar().get_subcommands() {
        assert!(
            command.get_about().is_some_and(|about| !about.to_string().is_empty()),
            "{}",
            command.get_name()
        );
    }
    for (command, arguments) in commands() {
        assert!(!arguments.is_empty(), "{command}");
        for argument in arguments {
            let what = format!("{command} {}", argument.get_id());
            assert!(
                argument.get_help().is_some_and(|help| !help.to_string().is_empty()),
                "{what} has no help"
            );
            if takes_value(&argument) {
                let names = argument
                    .get_value_names()
                    .unwrap_or_else(|| panic!("{what} has no value name"));
                let name = names[0].as_str();
                let is_path = ["FILE", "DIR", "PROGRAM"].contains(&name);
                assert_eq!(paths.contains(&argument.get_value_hint()), is_path, "{what} {name}");
            }
        }
    }
}

#[test]
fn completions_of_every_shell_offer_everything_but_what_is_hidden() {
    for shell in SHELLS {
        let script = printed(&["completions", shell]);
        for hidden in HIDDEN {
            assert!(!script.contains(hidden), "{shell} offers {hidden}");
        }
        for (command, arguments) in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
            for flag in arguments.iter().filter_map(Arg::get_long) {
                assert!(script.contains(flag), "{shell}: {command} --{flag}");
            }
        }
    }
}

#[test]
fn bash_completes() {
    let test = "cli::bash_completes";
    if !skip::has(test, &["bash"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    for name in ["prometheus.yml", "other.yml"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    fs::create_dir(folder.path().join("pages")).unwrap();
    let script = folder.path().join("lockwatch.bash");
    fs::write(&script, printed(&["completions", "bash"])).unwrap();
    let bash = |line: &str| {
        let output = Command::new("bash")
            .args(["--norc", "-c", line])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    bash("bash -n lockwatch.bash");
    // Runs in bash itself, as for the Tab key; `compopt` works only there.
    let complete = |words: &[&str]| -> BTreeSet<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let line = format!(
            "compopt() {{ :; }}; source ./lockwatch.bash; complete -p lockwatch >/dev/null || \
             exit 1\n\
             COMP_WORDS=({}); COMP_CWORD={}; last=$(( COMP_CWORD - 1 ))\n\
             _lockwatch lockwatch \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[last]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            words.len() - 1
        );
        bash(&line).lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(complete(&["lockwatch", "sta"]), set(&["status"]));
    assert_eq!(complete(&["lockwatch", "dem"]), set(&["demo"]));
    let offered = complete(&["lockwatch", ""]);
    for (command, _) in commands().into_iter().skip(1) {
        assert!(offered.contains(&command), "{command}: {offered:?}");
    }
    assert_eq!(
        complete(&["lockwatch", "status", "--"]),
        set(&[
            "--agent.url",
            "--agent.ca-file",
            "--agent.cert-file",
            "--agent.key-file",
            "--agent.login-file",
            "--agent.token-file",
            "--json",
            "--plugin",
            "--watch",
            "--help"
        ])
    );
    assert_eq!(complete(&["lockwatch", "--log.format", ""]), set(&["json", "logfmt", "text"]));
    assert_eq!(complete(&["lockwatch", "--log.format", "j"]), set(&["json"]));
    assert_eq!(
        complete(&["lockwatch", "check-config", "--prometheus.config", "prom"]),
        set(&["prometheus.yml"])
    );
    assert_eq!(complete(&["lockwatch", "--config.file", "o"]), set(&["other.yml"]));
    assert!(complete(&["lockwatch", "completions", ""]).is_superset(&set(&SHELLS)));
}

/// Freed memory soon returns to the system, and few heaps serve all threads, unless the environment
/// overrides this.
#[test]
fn the_allocator_is_set_up() {
    let set_up = |reported: &str| {
        let reported = format!("stats_print:true{reported}");
        let output =
            program().arg("--version").env("_RJEM_MALLOC_CONF", reported).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        ["opt.narenas", "opt.dirty_decay_ms", "opt.muzzy_decay_ms"].map(|option| {
            let line = text
                .lines()
                .find_map(|line| line.trim().strip_prefix(&format!("{option}: ")))
                .expect(option);
            line.split(' ').next().unwrap().parse::<u32>().unwrap()
        })
    };
    assert_eq!(set_up(""), [2, 3_000, 0]);
    assert_eq!(set_up(",narenas:7"), [7, 3_000, 0]);
}

/// A man page approximately as displayed: without roff escapes.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    ["\\fB", "\\fI", "\\fR", "\\&"]
        .iter()
        .fold(text, |text, escape| text.replace(escape, ""))
        .replace("\\-", "-")
}

#[test]
fn man_pages_are_whole() {
    let folder = TempDir::new().unwrap();
    run(&["man", "--dir", folder.path().to_str().unwrap()]);
    for (command, arguments) in commands() {
        let name = if command.is_empty() {
            "lockwatch".to_owned()
        } else {
            format!("lockwatch-{command}")
        };
        let bytes = fs::read(folder.path().join(format!("{name}.1")))
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        let page = plain(&bytes);
        assert!(page.contains(&format!(
            ".TH {name} 1 \" \" \"lockwatch {}\" \"User Commands\"",
            env!("CARGO_PKG_VERSION")
        )));
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXTRA"] {
            assert!(has_section(&page, section), "{name}: {section}:\n{page}");
        }
        for words in ["Exit codes:", "Examples:"] {
            assert!(page.contains(words), "{name}: {words}:\n{page}");
        }
        let more = page.contains("Files:") && page.contains("Environment:");
        assert!(!command.is_empty() || more && has_section(&page, "SUBCOMMANDS"), "{page}");
        let options = page.split(".SH OPTIONS").nth(1).unwrap().split(".SH").next().unwrap();
        for argument in &arguments {
            match argument.get_long() {
                Some(flag) => assert!(options.contains(&format!("--{flag}")), "{name}: --{flag}"),
                None => {
                    assert!(
                        options.contains(argument.get_value_names().unwrap()[0].as_str()),
                        "{name}: {argument:?}"
                    )
                }
            }
        }
        assert!(HIDDEN.iter().all(|hidden| !page.contains(hidden)), "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), commands().len(), "nothing else");
    assert_eq!(run(&["man"]).stdout, fs::read(folder.path().join("lockwatch.1")).unwrap());
    let nowhere = program().args(["man", "--dir", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1), "{nowhere:?}");
}

#[test]
fn every_example_of_the_help_can_be_typed() {
    for (command, _) in commands() {
        let help = [command.as_str(), "--help"].into_iter().filter(|word| !word.is_empty());
        let help = String::from_utf8(run(&help.collect::<Vec<_>>()).stdout).unwrap();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{help}"));
        assert!(examples.lines().count() > 0, "{help}");
        for line in examples.lines() {
            let typed = line.split(" #").next().unwrap();
            let words = typed.split_whitespace().map(|word| word.trim_matches('\''));
            let parsed = cli::parse(words);
            assert!(typed.starts_with("  lockwatch ") && parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}

fn has_section(page: &str, section: &str) -> bool {
    page.contains(&format!(".SH {section}\n")) || page.contains(&format!(".SH \"{section}\"\n"))
}

#[test]
fn groff_has_nothing_to_say_about_the_man_pages() {
    if !skip::has("cli::groff_has_nothing_to_say_about_the_man_pages", &["groff"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    for page in man::pages(grammar()).unwrap() {
        let path = folder.path().join(&page.file);
        fs::write(&path, page.text).unwrap();
        // -ww: all warnings; -z: no output.
        let output = Command::new("groff")
            .args(["-man", "-ww", "-z", "-Tutf8"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", page.file);
        let shown =
            Command::new("groff").args(["-man", "-Tascii", "-P-cbou"]).arg(&path).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("User Commands"), "{}:\n{shown}", page.file);
    }
}

#[test]
fn every_command_has_its_section() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let document = fs::read_to_string(path).unwrap();
    let commands: BTreeSet<String> = commands()
        .into_iter()
        .map(|(name, _)| format!("lockwatch {name}").trim_end().to_owned())
        .collect();
    let sections = document.split("\n## `").skip(1).filter_map(|part| part.split('`').next());
    assert_eq!(sections.map(str::to_owned).collect::<BTreeSet<_>>(), commands);
}

#[test]
fn the_help_has_exit_codes_and_examples_that_can_be_typed() {
    for (command, _) in commands() {
        let arguments = [command.as_str(), "--help"];
        let help = printed(if command.is_empty() { &arguments[1..] } else { &arguments });
        assert!(help.contains("Exit codes:\n"), "{help}");
        let usage = exit::Exit::of_usage(&command);
        let is_usage = |(exit, _): &exit::Case| exit.is_some_and(|exit| exit == usage);
        assert!(exit::of(&command).iter().any(is_usage), "{command}");
        let (_, examples) = help.split_once("Examples:\n").expect(&command);
        let examples: Vec<&str> = examples.lines().filter(|line| !line.is_empty()).collect();
        assert!(!examples.is_empty(), "{command}");
        for example in examples {
            let (words, _) = example.split_once(" #").unwrap_or((example, ""));
            let words: Vec<&str> = words.split_whitespace().collect();
            assert!(cli::parse(words.iter().copied()).is_ok(), "{example}");
            assert!(command.is_empty() || words[1] == command, "{command}: {example}");
        }
    }
}
