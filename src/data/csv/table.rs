//! A csv file as a header and rows, with errors that name the line.

use super::super::SizeLimits;
use super::super::bounded::Bounded;
use super::{ENV, is_env, is_like_env, is_number};
use crate::{Error, Result};
use csv::{Position, ReaderBuilder, StringRecord, Trim};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The longest header in bytes.
const MOST_HEADER: u64 = 4 << 20;
/// The longest row has `MOST_ROW` bytes, and `MOST_CELL` more for every column: a number has a few dozen letters. A row of commas
/// alone would take nine times its size in memory.
const MOST_ROW: u64 = 64 << 10;
const MOST_CELL: u64 = 1 << 10;
/// The most characters of a cell or name in an error.
const SHOWN: usize = 60;

/// A csv file whose header has been read.
pub(super) struct Table<'a> {
    path: &'a Path,
    reader: csv::Reader<Bounded<File>>,
    pub(super) header: Vec<String>,
    pub(super) record: StringRecord,
}

impl<'a> Table<'a> {
    pub(super) fn new(path: &'a Path, file: File, limits: &SizeLimits) -> Result<Self> {
        // Rows of any length are accepted here, so that the error can say what was found.
        let reader = ReaderBuilder::new()
            .flexible(true)
            .trim(Trim::All)
            .has_headers(false)
            .from_reader(Bounded::new(file));
        let mut table = Table { path, reader, header: Vec::new(), record: StringRecord::new() };
        if !table.next_record()? {
            return Err(Error::file(
                path,
                "is empty, expected a header line with the names of the variables",
            ));
        }
        let found = table.record.len();
        // One of the columns may hold the environments.
        if found.saturating_sub(1) > limits.variables {
            let most = limits.variables;
            return Err(table.at(format!("found {found} columns, expected at most {most} variables")));
        }
        if table.record.iter().all(is_number) {
            let listed: Vec<String> =
                table.record.iter().take(3).map(|cell| format!("`{}`", shown(cell))).collect();
            return Err(table.at(format!(
                "found the numbers {}{}, expected the names of the variables: the first line is a header",
                listed.join(", "),
                if found > 3 { ", …" } else { "" }
            )));
        }
        let (mut seen, mut env) = (HashSet::new(), None);
        for (k, name) in table.record.iter().enumerate() {
            let number = k + 1;
            if name.is_empty() {
                return Err(table.at(format!("column {number} has no name, expected one in the header")));
            }
            let name_shown = shown(name);
            if !seen.insert(name) {
                return Err(table.at(format!("column `{name_shown}` appears twice, expected distinct names")));
            }
            if is_like_env(name) {
                return Err(table.at(format!(
                    "found the column `{name_shown}`, expected `{ENV}` if it says which environment a row belongs to, or \
                     another name if it is a variable"
                )));
            }
            if is_env(name)
                && let Some(first) = env.replace(name)
            {
                return Err(table.at(format!(
                    "found the columns `{first}` and `{name}`, expected one that says which environment a row belongs to"
                )));
            }
        }
        let header: Vec<String> = table.record.iter().map(str::to_string).collect();
        let variables = header.len() - usize::from(env.is_some());
        limits.check_variables(variables).map_err(|problem| table.at(problem))?;
        table.header = header;
        Ok(table)
    }

    /// An error at the line of the current record.
    pub(super) fn at(&self, problem: String) -> Error {
        let line = self.record.position().map_or(1, |position| self.line(position));
        Error::file(self.path, format!("line {line}: {problem}"))
    }

    /// The line of the record that was read from `position`.
    ///
    /// The csv crate's positions lie before the blank lines that it skips. They are counted here, only when an error needs the line.
    fn line(&self, position: &Position) -> u64 {
        let skipped = || -> io::Result<usize> {
            let mut file = File::open(self.path)?;
            file.seek(SeekFrom::Start(position.byte()))?;
            let bytes = BufReader::new(file).bytes().map_while(io::Result::ok);
            Ok(bytes.take_while(|byte| matches!(byte, b'\r' | b'\n')).filter(|&byte| byte == b'\n').count())
        };
        position.line() + skipped().unwrap_or(0) as u64
    }

    fn next_record(&mut self) -> Result<bool> {
        let allowed = match self.header.len() as u64 {
            0 => MOST_HEADER,
            columns => MOST_ROW + MOST_CELL * columns,
        };
        self.reader.get_mut().allow(allowed);
        let place = self.reader.position().clone();
        let found = self.reader.read_record(&mut self.record);
        if self.reader.get_ref().exceeded {
            let what = if self.header.is_empty() { "header" } else { "row of so many columns" };
            let line = self.line(&place);
            return Err(Error::file(
                self.path,
                format!("line {line}: found more than {allowed} bytes, expected the end of a {what}"),
            ));
        }
        found.map_err(|error| {
            let text = error.to_string();
            match error.into_kind() {
                csv::ErrorKind::Io(source) => Error::Io { action: "read", path: self.path.into(), source },
                csv::ErrorKind::Utf8 { pos, .. } => {
                    let line = pos.map_or(1, |position| self.line(&position));
                    Error::file(
                        self.path,
                        format!("line {line}: found bytes that are not UTF-8, expected text"),
                    )
                }
                _ => Error::file(self.path, text),
            }
        })
    }

    /// Moves to the next row, which has as many cells as the header; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if !self.next_record()? {
            return Ok(false);
        }
        let (found, expected) = (self.record.len(), self.header.len());
        if found != expected {
            return Err(self.at(format!("found {found} cells, expected {expected} like the header")));
        }
        Ok(true)
    }

    pub(super) fn number(&self, column: usize, cell: &str) -> Result<f64> {
        let name = shown(&self.header[column]);
        match cell.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(value) => Err(self.at(format!("column `{name}` holds {value}, expected a finite number"))),
            Err(_) if cell.is_empty() => {
                Err(self.at(format!("column `{name}` has an empty cell, expected a number")))
            }
            Err(_) => {
                let cell = shown(cell);
                Err(self.at(format!("column `{name}` holds \"{cell}\", expected a number")))
            }
        }
    }

    pub(super) fn flag(&self, column: usize, cell: &str) -> Result<bool> {
        // Tables of truth values are commonly written as True and False.
        match cell.parse::<f64>() {
            Ok(0.0) => Ok(false),
            Ok(1.0) => Ok(true),
            _ if cell.eq_ignore_ascii_case("false") => Ok(false),
            _ if cell.eq_ignore_ascii_case("true") => Ok(true),
            _ => {
                let name = shown(&self.header[column]);
                let found = if cell.is_empty() {
                    "has an empty cell".into()
                } else {
                    format!("holds \"{}\"", shown(cell))
                };
                Err(self.at(format!("column `{name}` {found}, expected 0 or 1")))
            }
        }
    }

    /// The environment in `cell`, below `count` if that is known.
    pub(super) fn environment(&self, cell: &str, count: Option<usize>) -> Result<usize> {
        let found = cell.parse::<usize>();
        let cell = shown(cell);
        match (found, count) {
            (Ok(e), None) => Ok(e),
            (Ok(e), Some(count)) if e < count => Ok(e),
            (_, Some(count)) => {
                let last = count - 1;
                Err(self.at(format!(
                    "`{ENV}` is \"{cell}\", expected an integer from 0 to {last}, the {count} rows of the targets"
                )))
            }
            (Err(_), None) => Err(self.at(format!("`{ENV}` is \"{cell}\", expected an integer from 0"))),
        }
    }
}

/// The beginning of a text, for an error.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
