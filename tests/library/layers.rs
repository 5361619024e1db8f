//! The layers of the service: each uses only those before it, SQL stays in the store, and HTTP in its own layer.

use crate::rooms::rust_files;
use std::path::Path;

/// From the values to the way in. Files beside the folders hold the layers together and may use all.
const LAYERS: [&str; 4] = ["domain", "store", "run", "http"];

/// Words that belong to one layer.
const OWNED: [(&str, &str); 4] =
    [("rusqlite", "store"), ("axum", "http"), ("hyper", "http"), ("StatusCode", "http")];

fn place_of(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

fn is_word(text: &str, at: usize, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    !text[..at].chars().next_back().is_some_and(is_letter)
        && !text[at + word.len()..].chars().next().is_some_and(is_letter)
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_word(text, at, word))
}

/// The layers that a line names as modules of the service.
fn layers_named(line: &str) -> impl Iterator<Item = &'static str> + '_ {
    let names = |layer: &str| {
        let absolute = format!("serve::{layer}");
        let relative = format!("super::{layer}");
        // In a folder of a layer, a name after one `super` is a module of that layer.
        let above = line.contains(&format!("super::{relative}"));
        line.match_indices(&absolute).any(|(at, _)| is_word(line, at + 7, layer)) || above
    };
    LAYERS.into_iter().filter(move |layer| names(layer))
}

/// What is wrong with the lines of a layer's file.
fn complaints(layer: &str, place: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (k, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let at = format!("{place}:{}", k + 1);
        for (word, owner) in OWNED {
            if owner != layer && has_word(code, word) {
                found.push(format!(
                    "{at}: `{word}` in `{layer}`, expected it only in `{owner}`: {}",
                    line.trim()
                ));
            }
        }
        for other in layers_named(code) {
            if place_of(other) > place_of(layer) {
                found.push(format!("{at}: `{layer}` uses `{other}`, which comes after it: {}", line.trim()));
            }
        }
        // Lists of modules would hide names from this test.
        if code.contains("serve::{") {
            found.push(format!("{at}: expected one layer in a use: {}", line.trim()));
        }
    }
    found
}

#[test]
fn layers_of_the_service_use_only_those_before_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let serve = root.join("src/serve");
    let folders: Vec<String> = std::fs::read_dir(&serve)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(folders.iter().all(|folder| place_of(folder).is_some()), "{folders:?} are not all layers");
    let mut found = Vec::new();
    for layer in LAYERS {
        let mut files = Vec::new();
        rust_files(&serve.join(layer), &mut files);
        assert!(!files.is_empty(), "the layer {layer} is empty");
        files.sort();
        for file in files {
            let place = file.strip_prefix(root).unwrap().display().to_string();
            found.extend(complaints(layer, &place, &std::fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(found.is_empty(), "the layers of the service are mixed:\n{}", found.join("\n"));
}

#[test]
fn a_line_in_the_wrong_layer_is_named() {
    let wrong = |layer: &str, line: &str| complaints(layer, "f.rs", line);
    for (layer, line, piece) in [
        ("run", "use rusqlite::Connection;", "`rusqlite` in `run`, expected it only in `store`"),
        ("domain", "fn status() -> StatusCode {", "`StatusCode` in `domain`"),
        ("store", "let body: axum::Json<u8>;", "`axum` in `store`"),
        ("run", "use hyper_util::rt;\nuse hyper::body;", "f.rs:2: `hyper` in `run`"),
        ("domain", "use crate::serve::store::Store;", "`domain` uses `store`, which comes after it"),
        ("store", "use crate::serve::http;", "`store` uses `http`"),
        ("domain", "use super::super::run::service::Service;", "`domain` uses `run`"),
        ("run", "use crate::serve::{domain, http};", "expected one layer in a use"),
    ] {
        let found = wrong(layer, line);
        assert!(found.iter().any(|complaint| complaint.contains(piece)), "{line}: {found:?}");
    }
    for (layer, line) in [
        ("store", "use rusqlite::Connection;"),
        ("http", "use crate::serve::run::service::Service;"),
        ("domain", "// rusqlite is not for this layer"),
        ("domain", "use super::store_of_names;"),
        ("run", "use crate::serve::domain::kinds::Request;"),
    ] {
        assert!(wrong(layer, line).is_empty(), "{line}: {:?}", wrong(layer, line));
    }
}
