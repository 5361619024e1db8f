//! `skds man`: manual pages, from the same description of the commands as the help.

use super::command::Command;
use super::{Cli, print};
use crate::Result;
use crate::files::output::{create_folder, write_atomically};
use clap::CommandFactory;
use clap_mangen::roff::{Roff, roman};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What stands before the examples of a help.
const EXAMPLES: &str = "Examples:\n";

/// Write manual pages: one for skds and one for each command.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # All pages, for 'man skds' and 'man skds-fit'
  skds man -o ~/.local/share/man/man1

  # Read one page without installing it
  skds man fit | man -l -")]
pub(super) struct Args {
    /// Print the page of this command; several words for a command of a command. Without it, the page of skds itself
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write all pages to this folder instead of printing one
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        let mut cli = Cli::command().disable_help_subcommand(true);
        cli.build();
        if let Some(folder) = &self.output {
            create_folder(folder)?;
            return write_pages(&cli, folder);
        }
        let mut command = &cli;
        for name in &self.command {
            command =
                command.find_subcommand(name).filter(|found| !found.is_hide_set()).ok_or_else(|| {
                    let known = command.get_subcommands().filter(|known| !known.is_hide_set());
                    let known: Vec<&str> = known.map(clap::Command::get_name).collect();
                    let expected =
                        if known.is_empty() { "none".into() } else { format!("one of {}", known.join(", ")) };
                    crate::Error::invalid(format!("unknown command '{name}', expected {expected}"))
                })?;
        }
        print::print_bytes(&page(command))
    }
}

/// The pages of a command and of its commands.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<()> {
    let file = clap_mangen::Man::new(command.clone()).get_filename();
    let page = page(command);
    write_atomically(&folder.join(file), |writer| writer.write_all(&page))?;
    let commands = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    commands.into_iter().try_for_each(|inner| write_pages(inner, folder))
}

/// A manual page. Examples keep their lines, which a page would fill up otherwise.
fn page(command: &clap::Command) -> Vec<u8> {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    let sections = [
        clap_mangen::Man::render_title,
        clap_mangen::Man::render_name_section,
        clap_mangen::Man::render_synopsis_section,
        clap_mangen::Man::render_description_section,
        clap_mangen::Man::render_options_section,
    ];
    let full = "writing to memory does not fail";
    for section in sections {
        section(&man, &mut page).expect(full);
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page).expect(full);
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = after.split_once(EXAMPLES).unwrap_or((&after, ""));
    let mut rest = Roff::new();
    if !notes.trim().is_empty() {
        rest.control("SH", ["NOTES"]);
        for paragraph in notes.lines().filter(|line| !line.is_empty()) {
            rest.control("PP", []);
            rest.text([roman(paragraph)]);
        }
    }
    if !examples.is_empty() {
        rest.control("SH", ["EXAMPLES"]);
        rest.control("nf", []);
        examples.lines().for_each(|line| {
            rest.text([roman(line)]);
        });
        rest.control("fi", []);
    }
    rest.to_writer(&mut page).expect(full);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(name: &str) -> String {
        let mut cli = Cli::command().disable_help_subcommand(true);
        cli.build();
        let command = if name.is_empty() { &cli } else { cli.find_subcommand(name).unwrap() };
        String::from_utf8(page(command)).unwrap()
    }

    #[test]
    fn a_page_has_the_usual_sections_and_examples_keep_their_lines() {
        let page = page_of("fit");
        let titles: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "MODEL", "EXAMPLES"] {
            assert!(titles.iter().any(|found| found.trim_matches('"') == title), "{title}: {titles:?}");
        }
        let examples = page.split(".SH EXAMPLES").nth(1).unwrap();
        assert!(examples.starts_with("\n.nf\n") && examples.trim_end().ends_with(".fi"), "{examples}");
        assert!(examples.contains("skds fit train.npz \\-o model.safetensors\n"), "{examples}");
    }

    #[test]
    fn hidden_commands_have_no_page() {
        let page = page_of("");
        assert!(page.contains("skds\\-fit") && !page.contains("skds\\-work"), "{page}");
        let folder = tempfile::tempdir().unwrap();
        Args { command: Vec::new(), output: Some(folder.path().into()) }.run().unwrap();
        let names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for expected in ["skds.1", "skds-fit.1", "skds-experiment-run.1", "skds-man.1"] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("work")), "{names:?}");
    }
}
