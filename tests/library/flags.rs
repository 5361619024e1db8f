//! The library serves programs that have no command line: its texts say what to do, not which flag to give.

use crate::rooms::rust_files;
use std::path::Path;

/// Arguments that the library itself gives to processes it starts.
const ARGUMENTS: &[(&str, &str)] = &[("bench/memory.rs", "--memory-of")];

/// A string literal and the line it begins in.
type Literal = (usize, String);

/// All string literals of a Rust source, without those in comments and in its module of tests.
fn literals(source: &str) -> Vec<Literal> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let rest_of = |at: usize| &source[at..];
    while at < source.len() {
        let rest = rest_of(at);
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            // A quote as a character, or an escaped one.
            if rest.starts_with("'\"'") { 3 } else { 4 }
        } else if rest.starts_with("r\"") || rest.starts_with("r#") {
            let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
            let open = 1 + hashes + 1;
            match rest[1 + hashes..].starts_with('"') {
                // A raw identifier.
                false => 2,
                true => {
                    let end = format!("\"{}", "#".repeat(hashes));
                    let length = rest[open..].find(&end).unwrap_or(rest.len() - open);
                    found.push((line, rest[open..open + length].to_owned()));
                    (open + length + end.len()).min(rest.len())
                }
            }
        } else if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = text.char_indices().find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            let length = end.map_or(text.len(), |(end, _)| end);
            found.push((line, text[..length].to_owned()));
            (length + 2).min(rest.len())
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        line += source[at..at + taken].matches('\n').count();
        at += taken;
    }
    found
}

/// The flags that a text names: two hyphens and a letter, at the beginning of a word.
fn flags(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("--") {
        let before = text[..at].chars().next_back();
        let name: String =
            text[at + 2..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let begins = !before.is_some_and(|c| c.is_alphanumeric() || c == '-');
        if begins && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(format!("--{name}"));
        }
    }
    found
}

fn complaints(place: &str, source: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (line, text) in literals(source) {
        for flag in flags(&text) {
            if !ARGUMENTS.iter().any(|(file, argument)| *file == place && *argument == flag) {
                all.push(format!("src/{place}:{line}: a text of the library names the flag {flag}"));
            }
        }
    }
    all
}

/// Whether a file is part of the library; `cli` and `serve` are programs, whose users do have a command line.
fn is_library(file: &Path) -> bool {
    let program = file.components().any(|part| part.as_os_str() == "cli" || part.as_os_str() == "serve");
    !program && !file.to_str().unwrap().ends_with("tests.rs")
}

#[test]
fn texts_of_the_library_name_no_flags() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    files.retain(|file| is_library(file.strip_prefix(&source).unwrap()));
    assert!(files.len() > 50, "only {} files found", files.len());
    let all: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let place = file.strip_prefix(&source).unwrap().to_str().unwrap().replace('\\', "/");
            complaints(&place, &std::fs::read_to_string(file).unwrap())
        })
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_flag_in_a_text_is_named_with_its_place() {
    let source = "// \"--comment\"\nfn f() -> char {\n    let _ = \"use fewer rows, or \\\n      --device cpu\";\n    '\"'\n}\n\
                  const RAW: &str = r#\"say \"--loud\"\"#;\nconst DASH: &str = \"a--b, x --, --1\";\n\
                  #[cfg(test)]\nmod tests {\n    const T: &str = \"--test\";\n}\n";
    assert_eq!(
        complaints("x.rs", source),
        [
            "src/x.rs:3: a text of the library names the flag --device",
            "src/x.rs:7: a text of the library names the flag --loud",
        ]
    );
}
