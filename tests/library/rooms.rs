//! Dependencies between the rooms of `src/` point one way: a room uses those above it in this list, and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Top to bottom, the way of the data. Rooms in one line know nothing of each other.
const ROOMS: &[&[&str]] = &[
    &["error"],
    &["bounds", "named", "panics", "program", "progress", "stderr"],
    &["files", "numeric"],
    &["data"],
    &["kernel"],
    &["objective"],
    &["model"],
    &["engine"],
    &["sample"],
    &["predict"],
    &["solve"],
    &["rival"],
    &["fit"],
    &["metric"],
    &["evaluate"],
    &["graph"],
    &["simulate"],
    &["plot"],
    &["report"],
    &["front"],
    &["suggest"],
    &["prelude"],
    &["experiment"],
    &["bench"],
    &["serve"],
    &["client"],
    &["cli"],
];

/// Where the names that `lib.rs` exports come from.
const EXPORTS: &[(&str, &str)] = &[
    ("DeviceFailure", "error"),
    ("Do", "front"),
    ("Error", "error"),
    ("Fit", "front"),
    ("FitProgress", "front"),
    ("Fitted", "front"),
    ("Matrix", "numeric"),
    ("Options", "front"),
    ("Prediction", "front"),
    ("Progress", "progress"),
    ("Result", "error"),
    ("Scalar", "numeric"),
];

/// A place where one room uses another.
#[derive(Debug, PartialEq)]
struct Edge {
    from: String,
    to: String,
    place: String,
}

fn level(room: &str) -> Option<usize> {
    ROOMS.iter().position(|line| line.contains(&room))
}

pub fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The text without comments, with positions of lines kept.
fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The first names of everything that a text reaches through `crate::`, with their lines.
fn uses_of_crate(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, prefix) in text.match_indices("crate::") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = text[..at].lines().count().max(1);
        let rest = &text[at + prefix.len()..];
        for name in first_names(rest) {
            found.push((line, name));
        }
    }
    found
}

/// Of `a::b` the name a; of `{a::{b, c}, d}` the names a and d.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut names, mut start) = (1, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            names.push(name(&list[start..at]));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn room_of(file: &Path, source: &Path) -> String {
    let first = file.strip_prefix(source).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// Every use of one room by another, or by itself through a name that nobody knows.
fn edges_of(room: &str, place: &str, text: &str) -> Vec<Edge> {
    let text = without_comments(text);
    uses_of_crate(&text)
        .into_iter()
        .map(|(line, name)| {
            let to =
                EXPORTS.iter().find(|(export, _)| *export == name).map_or(name.as_str(), |(_, room)| room);
            Edge { from: room.into(), to: to.into(), place: format!("{place}:{line}") }
        })
        .filter(|edge| edge.to != edge.from)
        .collect()
}

/// What is wrong with an edge, if anything is.
fn complaint(edge: &Edge) -> Option<String> {
    let Edge { from, to, place } = edge;
    match (level(from), level(to)) {
        (None, _) => Some(format!("{place}: `{from}` is no room of the list")),
        (_, None) => Some(format!("{place}: `{from}` uses `{to}`, which is no room of the list")),
        (Some(a), Some(b)) if b >= a => Some(format!("{place}: `{from}` uses `{to}`, which is not above it")),
        _ => None,
    }
}

#[test]
fn rooms_use_only_those_above_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    files.sort();
    let (mut complaints, mut rooms) = (Vec::new(), BTreeSet::new());
    for file in files {
        let room = room_of(&file, &source);
        // They are no rooms: the map of the house and its door.
        if room == "lib" || room == "main" {
            continue;
        }
        let place = file.strip_prefix(root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        complaints.extend(edges_of(&room, &place, &text).iter().filter_map(complaint));
        rooms.insert(room);
    }
    let listed: BTreeSet<String> =
        ROOMS.iter().flat_map(|line| line.iter().map(|room| (*room).to_owned())).collect();
    assert_eq!(rooms, listed, "the list of rooms and the folders of src/ differ");
    assert!(complaints.is_empty(), "dependencies that point the wrong way:\n{}", complaints.join("\n"));
}

#[test]
fn an_edge_that_points_the_wrong_way_is_named() {
    let planted = "use crate::{Error, data::{Dataset, csv}, fit::Settings};\n// use crate::cli;\nfn f() { crate::serve::run() }";
    let edges = edges_of("model", "src/model/x.rs", planted);
    let complaints: Vec<String> = edges.iter().filter_map(complaint).collect();
    assert_eq!(
        complaints,
        [
            "src/model/x.rs:1: `model` uses `fit`, which is not above it",
            "src/model/x.rs:3: `model` uses `serve`, which is not above it",
        ]
    );
    assert!(
        edges_of("fit", "src/fit/x.rs", "use crate::data::Dataset;").iter().all(|e| complaint(e).is_none())
    );
    let unknown = edges_of("fit", "src/fit/x.rs", "use crate::attic::Chest;");
    assert!(complaint(&unknown[0]).unwrap().ends_with("which is no room of the list"));
}
