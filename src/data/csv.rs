//! Reads the `.csv` form: a header and rows of numbers, and the targets in a second file.

use super::{Raw, open};
use crate::{Error, Matrix, Result};
use csv::{Position, ReaderBuilder, StringRecord, Trim};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The column that says which environment a row belongs to.
pub(super) const ENV: &str = "env";

/// A csv file whose header has been read.
struct Table<'a> {
    path: &'a Path,
    reader: csv::Reader<BufReader<File>>,
    header: Vec<String>,
    record: StringRecord,
}

pub(super) fn read(path: &Path, file: File, targets: Option<&Path>) -> Result<Raw> {
    let mut table = Table::new(path, file)?;
    let env_column = table.header.iter().position(|name| name == ENV);
    let names: Vec<_> = table.header.iter().filter(|&name| name != ENV).cloned().collect();
    if names.is_empty() {
        return Err(Error::file(path, "has no column of samples, expected one column per variable"));
    }
    // The targets come first so that the environment of each row can be checked where it stands.
    let targets = targets.map(|targets| read_targets(targets, &names)).transpose()?;
    let (mut data, mut env, mut highest) = (Vec::new(), Vec::new(), 0);
    while table.advance()? {
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
fn read_targets(path: &Path, names: &[String]) -> Result<Matrix<bool>> {
    let mut table = Table::new(path, open(path)?)?;
    let expected = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let positions: HashMap<&str, usize> =
        names.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
    // For each column of the file the variable it is about; none for `env`.
    let mut variables = Vec::new();
    for column in &table.header {
        let variable = positions.get(column.as_str()).copied();
        if variable.is_none() && column != ENV {
            let problem = format!("has the unknown column `{column}`, expected the variables {}", expected());
            return Err(Error::file(path, problem));
        }
        variables.push(variable);
    }
    let present: HashSet<&String> = table.header.iter().collect();
    if let Some(missing) = names.iter().find(|name| !present.contains(name)) {
        let problem = format!("has no column `{missing}`, expected the variables {}", expected());
        return Err(Error::file(path, problem));
    }
    // The environment, the place and the flags of each row.
    let mut rows: Vec<(usize, Option<Position>, Vec<bool>)> = Vec::new();
    while table.advance()? {
        let (mut e, mut flags) = (rows.len(), vec![false; names.len()]);
        for (k, cell) in table.record.iter().enumerate() {
            match variables[k] {
                Some(variable) => flags[variable] = table.flag(k, cell)?,
                None => e = table.environment(cell, None)?,
            }
        }
        rows.push((e, table.record.position().cloned(), flags));
    }
    let count = rows.len();
    if count == 0 {
        return Err(Error::file(path, "has a header but no rows, expected one row per environment"));
    }
    let mut ordered = vec![None; count];
    for (e, position, flags) in rows {
        let problem = match ordered.get_mut(e) {
            Some(slot @ None) => {
                *slot = Some(flags);
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
    // As many rows as slots and no slot used twice: every slot is filled.
    let flags: Vec<bool> = ordered.into_iter().flatten().flatten().collect();
    Ok(Matrix::from_rows(count, names.len(), flags))
}

impl<'a> Table<'a> {
    fn new(path: &'a Path, file: File) -> Result<Self> {
        // Ragged rows are let through here so that the message can say what was found.
        let reader = ReaderBuilder::new()
            .flexible(true)
            .trim(Trim::All)
            .has_headers(false)
            .from_reader(BufReader::new(file));
        let mut table = Table { path, reader, header: Vec::new(), record: StringRecord::new() };
        if !table.next_record()? {
            return Err(Error::file(
                path,
                "is empty, expected a header line with the names of the variables",
            ));
        }
        let header: Vec<String> = table.record.iter().map(str::to_string).collect();
        let mut seen = HashSet::new();
        for (k, name) in header.iter().enumerate() {
            let number = k + 1;
            if name.is_empty() {
                return Err(table.at(format!("column {number} has no name, expected one in the header")));
            }
            if !seen.insert(name) {
                return Err(table.at(format!("column `{name}` appears twice, expected distinct names")));
            }
        }
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
        let found = self.reader.read_record(&mut self.record);
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
        let name = &self.header[column];
        match cell.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(value) => Err(self.at(format!("column `{name}` holds {value}, expected a finite number"))),
            Err(_) if cell.is_empty() => {
                Err(self.at(format!("column `{name}` has an empty cell, expected a number")))
            }
            Err(_) => Err(self.at(format!("column `{name}` holds \"{cell}\", expected a number"))),
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
                let name = &self.header[column];
                let found =
                    if cell.is_empty() { "has an empty cell".into() } else { format!("holds \"{cell}\"") };
                Err(self.at(format!("column `{name}` {found}, expected 0 or 1")))
            }
        }
    }

    /// The environment in `cell`, below `count` if that is known.
    fn environment(&self, cell: &str, count: Option<usize>) -> Result<usize> {
        match (cell.parse::<usize>(), count) {
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
