//! Help is prose that fits every terminal: nothing in it breaks a line by hand.

use super::Cli;
use super::completions::visible;
use clap::CommandFactory;

/// All commands that people see, with their names from the first on.
fn all() -> Vec<(String, clap::Command)> {
    fn collect(name: &str, command: &clap::Command, into: &mut Vec<(String, clap::Command)>) {
        into.push((name.to_owned(), command.clone()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            collect(&format!("{name} {}", inner.get_name()), inner, into);
        }
    }
    let mut found = Vec::new();
    collect("skds", &Cli::command(), &mut found);
    found
}

/// A help without its examples, which are commands to copy.
fn prose(help: &str) -> &str {
    help.split("Examples:\n").next().unwrap_or("")
}

fn texts(command: &clap::Command) -> Vec<String> {
    let of_command = [
        command.get_about(),
        command.get_long_about(),
        command.get_before_help(),
        command.get_after_help(),
        command.get_after_long_help(),
    ];
    let of_options = command.get_arguments().flat_map(|option| [option.get_help(), option.get_long_help()]);
    of_command.into_iter().chain(of_options).flatten().map(ToString::to_string).collect()
}

#[test]
fn paragraphs_are_single_lines() {
    for (name, command) in all() {
        for text in texts(&command) {
            let lines: Vec<&str> = prose(&text).lines().collect();
            for pair in lines.windows(2) {
                assert!(
                    pair.iter().any(|line| line.is_empty()),
                    "{name}: a line break within a paragraph, between '{}' and '{}'",
                    pair[0],
                    pair[1]
                );
            }
        }
    }
}

#[test]
fn help_fits_the_terminal() {
    for width in [60, 80, 100] {
        for (name, command) in all() {
            for help in [true, false].map(|long| {
                let mut command = command.clone().term_width(width);
                if long { command.render_long_help() } else { command.render_help() }.to_string()
            }) {
                for line in prose(&help).lines().filter(|line| !line.starts_with("Usage:")) {
                    let long = line.chars().count() > width;
                    // A word that is longer than what is left of a line has no place to break.
                    let breaks =
                        line.trim_start().split(' ').count() > 1 && !line.trim_start().starts_with('-');
                    assert!(!(long && breaks), "{name} at {width} columns: '{line}'");
                }
            }
        }
    }
}

#[test]
fn every_command_is_described_with_an_example() {
    for (name, command) in all() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.ends_with('.'), "{name}: '{about}'");
        // Those of an experiment have theirs together.
        if name.split(' ').count() == 2 {
            let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:\n"), "{name}: {after}");
        }
        for option in command.get_arguments() {
            assert!(option.get_help().is_some(), "{name}: {} has no help", option.get_id());
        }
    }
}

#[test]
fn examples_are_commands_that_parse() {
    let mut count = 0;
    for (name, command) in all() {
        let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let Some((_, examples)) = after.split_once("Examples:\n") else { continue };
        for line in examples.lines().map(str::trim).filter(|line| line.starts_with("skds ")) {
            let words = line.split(['|', '>']).next().unwrap_or("").split_whitespace();
            if let Err(error) = Cli::command().try_get_matches_from(words) {
                panic!("{name}: '{line}' is no command: {error}");
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count} examples");
}

#[test]
fn the_description_of_the_command_line_is_consistent() {
    Cli::command().debug_assert();
    visible(&Cli::command()).debug_assert();
}
