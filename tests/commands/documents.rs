//! The commands and options that documents show are those that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of other programs that documents mention.
const OTHERS: &[&str] = &["--install", "--device /dev/dri"];

fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name));
    pages.chain(others).map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The lines of fenced and indented blocks, continued lines joined, without prompts and comments.
fn shown_commands(text: &str) -> Vec<String> {
    let (mut fenced, mut found) = (false, Vec::new());
    for line in text.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        // Fenced blocks show output too, and have prompts to tell it from commands.
        let command = if fenced { line.strip_prefix("$ ") } else { line.strip_prefix("    ") };
        let command = command.and_then(|line| line.split("  #").next());
        found.extend(command.filter(|command| command.starts_with("skds ")).map(str::to_owned));
    }
    found
}

/// The inline code of the prose.
fn spans(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "))).collect()
}

/// The options of a command, asked once.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, Option<BTreeSet<String>>>);

impl Helps {
    fn options(&mut self, command: &[String]) -> Option<&BTreeSet<String>> {
        let ask = || {
            let output =
                Command::new(env!("CARGO_BIN_EXE_skds")).args(command).arg("--help").output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let is_part = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
            let words = text.split(is_part).filter(|word| word.starts_with('-'));
            output.status.success().then(|| words.map(str::to_owned).collect())
        };
        self.0.entry(command.to_vec()).or_insert_with(ask).as_ref()
    }

    /// What is wrong with a command line that begins with `skds`.
    fn complaint(&mut self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace().skip(1).peekable();
        let mut command = Vec::new();
        // The one option that stands before a command has a value.
        if words.next_if_eq(&"--server").is_some() {
            words.next();
        }
        while let Some(word) =
            words.peek().filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
        {
            command.push((*word).to_owned());
            words.next();
            if command[0] != "experiment" || command.len() == 2 {
                break;
            }
        }
        let Some(options) = self.options(&command) else { return Some(format!("'{line}' is no command")) };
        let given = words
            .filter(|word| word.starts_with('-') && word[1..].starts_with(|c: char| !c.is_ascii_digit()));
        let name = |word: &str| word.split(['=', '|']).next().unwrap().to_owned();
        let unknown = given.map(name).find(|option| !options.contains(option));
        unknown.map(|option| format!("'{line}': the command has no {option}"))
    }
}

#[test]
fn commands_in_documents_exist_with_their_options() {
    let (mut helps, mut complaints, mut count) = (Helps::default(), Vec::new(), 0);
    for (path, text) in documents() {
        let inline = spans(&text).into_iter().filter(|span| span.starts_with("skds ") && !span.contains('|'));
        for line in shown_commands(&text).into_iter().chain(inline) {
            count += 1;
            complaints.extend(helps.complaint(&line).map(|what| format!("{}: {what}", path.display())));
        }
    }
    assert!(count > 50, "found {count} commands in the documents");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn options_in_documents_exist() {
    let mut helps = Helps::default();
    let commands = [
        "",
        "fit",
        "loss",
        "graph",
        "sample",
        "evaluate",
        "suggest",
        "convexity",
        "simulate",
        "bench",
        "serve",
        "devices",
        "validate",
    ]
    .map(|name| name.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let experiments =
        ["run", "plot", "table", "figure1"].map(|name| vec!["experiment".to_owned(), name.to_owned()]);
    let known: BTreeSet<String> = commands
        .iter()
        .chain(&experiments)
        .flat_map(|command| helps.options(command).unwrap().clone())
        .collect();
    let mut unknown = Vec::new();
    for (path, text) in documents() {
        for span in
            spans(&text).into_iter().filter(|span| span.starts_with("--") && !OTHERS.contains(&span.as_str()))
        {
            let name = span.split([' ', '=', '|']).next().unwrap();
            if !known.contains(name) {
                unknown.push(format!("{}: {span}", path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "options that no command has:\n{}", unknown.join("\n"));
}

#[test]
fn a_wrong_command_is_named() {
    let mut helps = Helps::default();
    assert_eq!(
        helps.complaint("skds fit train.npz -o model.safetensors --lambda 0.1 --shift=-1"),
        Some(
            "'skds fit train.npz -o model.safetensors --lambda 0.1 --shift=-1': the command has no --shift"
                .into()
        )
    );
    assert_eq!(
        helps.complaint("skds --server http://127.0.0.1:8765 fit train.npz -o model.safetensors"),
        None
    );
    assert_eq!(helps.complaint("skds teach train.npz"), Some("'skds teach train.npz' is no command".into()));
    assert!(helps.complaint("skds experiment table plan.toml --partial -x").unwrap().ends_with("no -x"));
}
