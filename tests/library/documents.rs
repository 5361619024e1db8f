//! The documents hold together: links, pictures, files and modules that they name exist, the book has every page, and the
//! README stays short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Lines that the README may have.
const README_LINES: usize = 150;

/// Documents outside of the book.
const OTHERS: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "shaders/README.md"];

/// Where paths that documents name begin.
const FOLDERS: &[&str] = &["benches", "docs", "examples", "experiments", "shaders", "src", "tests", "tools"];

/// The text of every document by its path from the root.
type Documents = BTreeMap<PathBuf, String>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Documents {
    let pages = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages = pages.map(|path| path.strip_prefix(root()).unwrap().to_owned());
    let all = OTHERS.iter().map(PathBuf::from).chain(pages);
    all.map(|path| (path.clone(), std::fs::read_to_string(root().join(path)).unwrap())).collect()
}

/// The lines of a document outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Where the links and pictures of a document lead to.
fn links(text: &str) -> Vec<String> {
    let targets = |line: &str| -> Vec<String> {
        let after = line.split("](").skip(1);
        after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
    };
    prose(text).flat_map(targets).collect()
}

/// The anchors of a document's headings, as code hosts and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The path without `..`, which a link may begin with.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut all, part| {
        match part {
            Component::ParentDir => drop(all.pop()),
            Component::CurDir => {}
            part => all.push(part),
        }
        all
    })
}

/// What is wrong with the links of a document.
fn broken_links(page: &Path, documents: &Documents) -> Vec<String> {
    let mut broken = Vec::new();
    for link in links(&documents[page]) {
        if link.contains("://") {
            broken.push(format!("{}: {link} leads out of the repository", page.display()));
            continue;
        }
        let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, a)| (file, Some(a)));
        let to = match file {
            "" => page.to_owned(),
            file => normal(&page.parent().unwrap().join(file)),
        };
        if !documents.contains_key(&to) && !root().join(&to).exists() {
            broken.push(format!("{}: {link} does not exist", page.display()));
        } else if page.starts_with("docs") && !to.starts_with("docs") {
            broken.push(format!("{}: {link} leads out of the book", page.display()));
        } else if anchor.is_some_and(|a| !documents.get(&to).is_some_and(|text| anchors(text).contains(a))) {
            broken.push(format!("{}: {link} names no heading", page.display()));
        }
    }
    broken
}

#[test]
fn links_and_pictures_exist() {
    let documents = documents();
    let broken: Vec<String> = documents.keys().flat_map(|page| broken_links(page, &documents)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_broken_link_is_named() {
    let text = "# A title: one, two\n[a](quality.md) [b](missing.md) ![c](none.svg)\n```\n[d](e.md)\n```\n\
                [f](../README.md) [g](#a-title-one-two) [h](#other) [i](https://example.org)";
    let page = PathBuf::from("docs/page.md");
    let documents = Documents::from([(page.clone(), text.to_owned())]);
    assert_eq!(
        broken_links(&page, &documents),
        [
            "docs/page.md: missing.md does not exist",
            "docs/page.md: none.svg does not exist",
            "docs/page.md: ../README.md leads out of the book",
            "docs/page.md: #other names no heading",
            "docs/page.md: https://example.org leads out of the repository",
        ]
    );
}

#[test]
fn the_summary_has_every_page_once() {
    let documents = documents();
    let summary = Path::new("docs/SUMMARY.md");
    let mut listed = links(&documents[summary]);
    listed.sort();
    let pages = documents.keys().filter(|path| path.starts_with("docs") && *path != summary);
    let pages: Vec<String> =
        pages.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(listed, pages);
}

#[test]
fn every_picture_of_the_book_is_shown() {
    let documents = documents();
    let shown: BTreeSet<String> = documents
        .values()
        .flat_map(|text| links(text))
        .filter_map(|link| Some(Path::new(&link).file_name()?.to_str()?.to_owned()))
        .collect();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".svg") || name.ends_with(".png") {
            assert!(shown.contains(&name), "docs/{name} is in no document");
        }
    }
}

#[test]
fn the_readme_is_short() {
    let lines = documents()[Path::new("README.md")].lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines, expected at most {README_LINES}");
}

/// The inline code of a text.
fn code(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn files_that_documents_name_exist() {
    let mut missing = Vec::new();
    for (page, text) in documents().iter().filter(|(page, _)| !page.ends_with("CHANGELOG.md")) {
        let paths =
            code(text).filter(|span| FOLDERS.iter().any(|folder| span.starts_with(&format!("{folder}/"))));
        let named = paths.filter(|path| {
            !path.contains([' ', '*', '<']) && !path.contains("NAME") && !root().join(path).exists()
        });
        missing.extend(named.map(|path| format!("{}: {path}", page.display())));
    }
    assert!(missing.is_empty(), "documents name files that do not exist:\n{}", missing.join("\n"));
}

/// The text of all sources below a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = entries.map(|path| match path.is_dir() {
        true => sources(&path),
        false => std::fs::read_to_string(&path).unwrap_or_default(),
    });
    text.collect::<Vec<_>>().join("\n")
}

/// Whether some code is the name of a type, a function of one, or a macro.
fn is_item(span: &str) -> bool {
    let is_path = span.chars().all(|c| c.is_ascii_alphanumeric() || "_:!".contains(c));
    let is_type =
        span.starts_with(|c: char| c.is_ascii_uppercase()) && span.contains(|c: char| c.is_ascii_lowercase());
    is_path && (is_type || span.contains("::") || span.ends_with('!'))
}

#[test]
fn items_that_the_architecture_names_exist() {
    let text = &documents()[Path::new("ARCHITECTURE.md")];
    let sources = sources(&root().join("src"));
    let is_part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words: BTreeSet<&str> = sources.split(is_part).collect();
    let items: Vec<&str> = code(text).filter(|span| is_item(span)).collect();
    let names =
        |span: &str| span.split(is_part).filter(|name| !name.is_empty()).all(|name| words.contains(name));
    let unknown: Vec<&&str> = items.iter().filter(|span| !names(span)).collect();
    assert!(items.len() > 10, "found {items:?}");
    assert!(unknown.is_empty(), "ARCHITECTURE.md names {unknown:?}, which no source has");
}

/// The names of all modules below a room, or of the room alone if it is a file.
fn modules(path: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|entry| {
            let name = entry.file_stem().unwrap().to_str().unwrap().to_owned();
            modules(&entry).into_iter().chain([name])
        })
        .collect()
}

/// The rows of the table of rooms: the rooms of each row, and what else its text names as code.
fn rows_of_rooms(text: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let table = text.lines().skip_while(|line| !line.starts_with("| room")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let is_name =
        |span: &&str| span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    rows.map(|line| {
        let (rooms, names) = line[1..].split_once('|').unwrap();
        (code(rooms).collect(), code(names).filter(is_name).collect())
    })
    .collect()
}

#[test]
fn the_architecture_names_the_rooms_and_modules_there_are() {
    let text = &documents()[Path::new("ARCHITECTURE.md")];
    let source = root().join("src");
    let rows = rows_of_rooms(text);
    let mut named: Vec<String> =
        rows.iter().flat_map(|(rooms, _)| rooms.iter().map(|r| (*r).to_owned())).collect();
    named.extend(["lib".to_owned(), "main".to_owned()]);
    named.sort();
    let entries = std::fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path());
    let mut rooms: Vec<String> =
        entries.map(|p| p.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    rooms.sort();
    assert_eq!(named, rooms, "the table of rooms and the folders of src/ differ");
    for (rooms, names) in rows {
        let known: BTreeSet<String> = rooms.iter().flat_map(|room| modules(&source.join(room))).collect();
        let unknown: Vec<_> = names.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "the row of {rooms:?} names {unknown:?}, which are no modules of it");
    }
}

/// What the README shows is an example, which is compiled with the tests.
#[test]
fn the_readmes_program_is_an_example() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("examples/first_fit.rs")).unwrap();
    let (_, shown) = readme.split_once("```rust\n").expect("the README shows a program");
    let (shown, _) = shown.split_once("```").unwrap();
    let (_, program) = example.split_once("\n\n").expect("the example begins with a comment");
    assert_eq!(shown, program);
    let lines = shown.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 15, "the program has {lines} lines");
}
