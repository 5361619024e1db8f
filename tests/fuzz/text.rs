//! Damage to texts, word by word: csv, expressions, TOML, JSON.

use crate::bytes::{self, below, pick};
use rand::Rng;

/// Numbers as texts have them.
pub const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "0.5",
    "1e308",
    "-1e308",
    "1e999",
    "5e-324",
    "1e-400",
    "255",
    "65536",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "100000000000",
    "NaN",
    "inf",
    "-Infinity",
    "0x10",
];

/// Letters that are more or less than they seem.
const ODD: [&str; 12] =
    ["\u{feff}", "\u{a0}", "\u{200b}", "γ", "−", "·", "\0", "\u{1d11e}", "é", "\r\n", "\u{202e}", "\\u0000"];

fn class(c: char) -> u8 {
    match c {
        '0'..='9' | '.' => 0,
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 3,
    }
}

/// Runs of digits, letters or blanks; every other sign by itself.
fn tokens(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut last = 3;
    for c in text.chars() {
        let class = class(c);
        match all.last_mut() {
            Some(token) if class == last && class != 3 => token.push(c),
            _ => all.push(c.into()),
        }
        last = class;
    }
    all
}

/// Changes a text in one way; `words` mean something where it is read.
pub fn mutate(rng: &mut impl Rng, input: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    let Ok(text) = std::str::from_utf8(input) else { return bytes::mutate(rng, input, other) };
    let mut all = tokens(text);
    if all.is_empty() {
        all.push(pick(rng, words).into());
    }
    let at = below(rng, all.len());
    match below(rng, 12) {
        0 | 1 => {
            // Most of what is read are numbers.
            let is_number = |token: &String| token.starts_with(|c: char| c.is_ascii_digit());
            let numbers: Vec<usize> = (0..all.len()).filter(|k| is_number(&all[*k])).collect();
            let at = if numbers.is_empty() { at } else { numbers[below(rng, numbers.len())] };
            all[at] = pick(rng, &NUMBERS).into();
        }
        2 => all[at] = pick(rng, words).into(),
        3 => all.insert(at, pick(rng, words).into()),
        4 => drop(all.remove(at)),
        5 => {
            let other = below(rng, all.len());
            all.swap(at, other);
        }
        6 => all[at] = all[below(rng, all.len())].clone(),
        7 => {
            let (open, close) =
                [("(", ")"), ("[", "]"), ("{", "}"), ("-(", ")"), ("\"", "\"")][below(rng, 5)];
            let depth = [1, 3, 99, 101, 2000][below(rng, 5)];
            all[at] = format!("{}{}{}", open.repeat(depth), all[at], close.repeat(depth));
        }
        8 => {
            let times = [2, 3, 10, 300, 5000][below(rng, 5)];
            let end = (at + 1 + below(rng, 4)).min(all.len());
            let part: String = all[at..end].concat();
            all[at] = part.repeat(times.min(1 + bytes::MOST / part.len().max(1)));
        }
        9 => {
            // A line or a field once more, or not at all.
            let mark = ["\n", ","][below(rng, 2)];
            let text = all.concat();
            let mut parts: Vec<&str> = text.split(mark).collect();
            let at = below(rng, parts.len());
            match below(rng, 3) {
                0 => parts.insert(at, parts[at]),
                1 => drop(parts.remove(at)),
                _ => {
                    let other = below(rng, parts.len());
                    parts.swap(at, other);
                }
            }
            all = vec![parts.join(mark)];
        }
        10 => {
            let token = &all[at];
            all[at] = match below(rng, 3) {
                0 => token.to_uppercase(),
                1 => format!("{token}{}", pick(rng, &ODD)),
                _ => format!("{}{token}", pick(rng, &ODD)),
            };
        }
        _ => return bytes::mutate(rng, input, other),
    }
    *input = all.concat().into_bytes();
    input.truncate(bytes::MOST);
}
