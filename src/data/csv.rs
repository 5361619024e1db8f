//! Reads the `.csv` form: a header and rows of numbers, and the targets in a second file.

use super::bounded::Bounded;
use super::{Most, Raw, open};
use crate::{Error, Matrix, Result};
use csv::{Position, ReaderBuilder, StringRecord, Trim};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The column that says which environment a row belongs to.
pub(super) const ENV: &str = "env";
/// Names that can hardly be those of variables and are not [`ENV`] either: taking them for one or the other would be a guess.
const LIKE_ENV: [&str; 4] = ["envs", "environment", "environments", "env_id"];

/// Bytes of a header at most.
const MOST_HEADER: u64 = 4 << 20;
/// Bytes of a row at most, and beside them so many for every column: a number has a few dozen letters. A row of nothing
/// but commas would take nine times its size.
const MOST_ROW: u64 = 64 << 10;
const MOST_CELL: u64 = 1 << 10;
/// Letters of a cell or name in a sentence.
const SHOWN: usize = 60;
/// Names in a sentence.
const LISTED: usize = 20;

/// Whether a column of this name says which environment a row belongs to: [`ENV`] in small or capital letters.
pub(crate) fn is_env(name: &str) -> bool {
    name.eq_ignore_ascii_case(ENV)
}

/// Whether a column of this name could be meant to be [`ENV`] but is not called so: another word, or quotes and signs that
/// cannot be seen around it.
pub(super) fn is_like_env(name: &str) -> bool {
    let word = name.trim_matches(|c: char| !c.is_alphanumeric());
    LIKE_ENV.iter().any(|like| word.eq_ignore_ascii_case(like)) || (is_env(word) && !is_env(name))
}

/// Whether a name is a number: a header of nothing else is a row of samples.
pub(super) fn is_number(name: &str) -> bool {
    name.parse::<f64>().is_ok()
}

/// A csv file whose header has been read.
struct Table<'a> {
    path: &'a Path,
    reader: csv::Reader<Bounded<File>>,
    header: Vec<String>,
    record: StringRecord,
}

/// The number of variables in a csv file, by its header alone.
pub(crate) fn width(path: &Path) -> Result<usize> {
    let table = Table::new(path, open(path)?, &Most::ANY)?;
    Ok(table.header.iter().filter(|name| !is_env(name)).count())
}

/// The variables of a csv file and the number of its environments, as far as its column [`ENV`] tells.
pub(crate) fn outline(path: &Path, most: &Most) -> Result<(Vec<String>, usize)> {
    let mut table = Table::new(path, open(path)?, most)?;
    let env_column = table.header.iter().position(|name| is_env(name));
    let (mut rows, mut last) = (0, 0);
    while table.advance()? {
        rows += 1;
        if let Some(cell) = env_column.and_then(|k| table.record.get(k)) {
            last = last.max(table.environment(cell, None)?);
        }
    }
    if last >= rows.max(1) {
        let problem =
            format!("has {rows} rows and the environment {last}, expected rows of every environment");
        return Err(Error::file(path, problem));
    }
    Ok((table.header.into_iter().filter(|name| !is_env(name)).collect(), last + 1))
}

pub(super) fn read(path: &Path, file: File, targets: Option<&Path>, most: &Most) -> Result<Raw> {
    let mut table = Table::new(path, file, most)?;
    let env_column = table.header.iter().position(|name| is_env(name));
    let names: Vec<_> = table.header.iter().filter(|name| !is_env(name)).cloned().collect();
    if names.is_empty() {
        return Err(Error::file(path, "has no column of samples, expected one column per variable"));
    }
    // The targets come first so that the environment of each row can be checked where it stands.
    let targets = targets.map(|targets| read_targets(targets, &names, most)).transpose()?;
    let (mut data, mut env, mut highest) = (Vec::new(), Vec::new(), 0);
    while table.advance()? {
        // The rows so far and this one.
        let rows = data.len() / names.len() + 1;
        most.check_bytes("samples", rows, 8 * names.len() as u64).map_err(|problem| table.at(problem))?;
        for (k, cell) in table.record.iter().enumerate() {
            if Some(k) == env_column {
                let e = table.environment(cell, targets.as_ref().map(Matrix::rows))?;
                highest = highest.max(e);
                env.push(e);
            } else {
                data.push(table.number(k, cell)?);
            }
        }
    }
    if data.is_empty() {
        return Err(Error::file(path, "has a header but no rows, expected at least two"));
    }
    let count = highest.saturating_add(1);
    match &targets {
        None if highest > 0 => {
            let problem = format!(
                "the column `{ENV}` names environments up to {highest} but there is no targets file, \
                 expected one with a row per environment when there are several"
            );
            return Err(Error::file(path, problem));
        }
        Some(targets) if env_column.is_none() && targets.rows() != count => {
            let problem = format!(
                "has no column `{ENV}`, expected one because the targets have {} rows, one per environment",
                targets.rows()
            );
            return Err(Error::file(path, problem));
        }
        _ => {}
    }
    data.shrink_to_fit();
    let dim = names.len();
    Ok(Raw {
        samples: Matrix::from_rows(data.len() / dim, dim, data),
        env,
        targets: targets.unwrap_or_else(|| Matrix::full(1, dim, false)),
        names,
    })
}

/// Reads the second file: the columns `names` in any order and optionally `env`, one row per environment.
fn read_targets(path: &Path, names: &[String], most: &Most) -> Result<Matrix<bool>> {
    let mut table = Table::new(path, open(path)?, most)?;
    let expected = || {
        let listed = names.iter().take(LISTED).map(|name| format!("`{}`", shown(name)));
        let more = (names.len() > LISTED).then(|| "…".to_owned());
        listed.chain(more).collect::<Vec<_>>().join(", ")
    };
    let positions: HashMap<&str, usize> =
        names.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
    // For each column of the file the variable it is about; none for `env`.
    let mut variables = Vec::new();
    for column in &table.header {
        let variable = positions.get(column.as_str()).copied();
        if variable.is_none() && !is_env(column) {
            let column = shown(column);
            let problem = format!("has the unknown column `{column}`, expected the variables {}", expected());
            return Err(Error::file(path, problem));
        }
        variables.push(variable);
    }
    let present: HashSet<&String> = table.header.iter().collect();
    if let Some(missing) = names.iter().find(|name| !present.contains(name)) {
        let missing = shown(missing);
        let problem = format!("has no column `{missing}`, expected the variables {}", expected());
        return Err(Error::file(path, problem));
    }
    // The environment and the place of each row, and the flags of all rows.
    let (mut rows, mut flags): (Vec<(usize, Option<Position>)>, Vec<bool>) = (Vec::new(), Vec::new());
    while table.advance()? {
        let (mut e, start) = (rows.len(), flags.len());
        most.check_bytes("targets", e + 1, names.len() as u64).map_err(|problem| table.at(problem))?;
        flags.resize(start + names.len(), false);
        for (k, cell) in table.record.iter().enumerate() {
            match variables[k] {
                Some(variable) => flags[start + variable] = table.flag(k, cell)?,
                None => e = table.environment(cell, None)?,
            }
        }
        rows.push((e, table.record.position().cloned()));
    }
    let count = rows.len();
    if count == 0 {
        return Err(Error::file(path, "has a header but no rows, expected one row per environment"));
    }
    // The row of each environment.
    let mut places = vec![None; count];
    for (row, (e, position)) in rows.into_iter().enumerate() {
        let problem = match places.get_mut(e) {
            Some(place @ None) => {
                *place = Some(row);
                continue;
            }
            Some(Some(_)) => format!("environment {e} appears twice, expected one row each"),
            None => {
                let last = count - 1;
                format!("`{ENV}` is {e}, expected 0 to {last} because there are {count} rows")
            }
        };
        table.record.set_position(position);
        return Err(table.at(problem));
    }
    // As many rows as places and no place used twice: every place is filled.
    let places: Vec<usize> = places.into_iter().flatten().collect();
    let flags = Matrix::from_rows(count, names.len(), flags);
    if places.is_sorted() {
        return Ok(flags);
    }
    Ok(Matrix::from_fn(count, names.len(), |e, j| flags[(places[e], j)]))
}

impl<'a> Table<'a> {
    fn new(path: &'a Path, file: File, most: &Most) -> Result<Self> {
        // Ragged rows are let through here so that the message can say what was found.
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
        // One of them may be the environment's.
        if found.saturating_sub(1) > most.variables {
            let most = most.variables;
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
        most.check_variables(variables).map_err(|problem| table.at(problem))?;
        table.header = header;
        Ok(table)
    }

    /// An error at the line of the current record.
    fn at(&self, problem: String) -> Error {
        let line = self.record.position().map_or(1, |position| self.line(position));
        Error::file(self.path, format!("line {line}: {problem}"))
    }

    /// The line of the record that was read from `position`.
    ///
    /// The csv crate's positions lie before the blank lines it skips, so these are counted here, and only when
    /// an error needs the line.
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
    fn advance(&mut self) -> Result<bool> {
        if !self.next_record()? {
            return Ok(false);
        }
        let (found, expected) = (self.record.len(), self.header.len());
        if found != expected {
            return Err(self.at(format!("found {found} cells, expected {expected} like the header")));
        }
        Ok(true)
    }

    fn number(&self, column: usize, cell: &str) -> Result<f64> {
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

    fn flag(&self, column: usize, cell: &str) -> Result<bool> {
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
    fn environment(&self, cell: &str, count: Option<usize>) -> Result<usize> {
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

/// The beginning of a text, for a sentence.
fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
