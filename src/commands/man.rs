//! The man pages: one for the program and one for each command, from the definitions of the command
//! line.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_mangen::Man;

use crate::text::terminal;

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
    std::iter::once(&program).chain(program.get_subcommands()).map(page).collect()
}

fn page(command: &clap::Command) -> io::Result<ManPage> {
    let source = concat!("lockwatch ", env!("CARGO_PKG_VERSION"));
    // No day: the same program gives the same pages. Not quite empty: roff would take the next word
    // for it.
    let man = Man::new(command.clone()).date(" ").source(source).manual("User Commands");
    let mut text = Vec::new();
    man.render(&mut text)?;
    Ok(ManPage { file: man.get_filename(), text })
}

fn write(folder: &Path, pages: Vec<ManPage>) -> anyhow::Result<()> {
    for page in pages {
        let path = folder.join(page.file);
        fs::write(&path, page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
