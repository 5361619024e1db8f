//! Reads the `.csv` form: a header and rows of numbers, and the targets in a second file.

mod table;

use super::SizeLimits;
use super::read::{Raw, open};
use crate::{Error, Matrix, Result};
use csv::Position;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use table::{Table, shown};

/// The name of the column with the environment of each row.
pub(super) const ENV: &str = "env";
/// Names that are refused because they are ambiguous: hardly variables, but not [`ENV`] either.
const LIKE_ENV: [&str; 4] = ["envs", "environment", "environments", "env_id"];

/// Names listed in an error.
const LISTED: usize = 20;

/// Whether a column of this name holds environments: [`ENV`] in any case.
pub(crate) fn is_env(name: &str) -> bool {
    name.eq_ignore_ascii_case(ENV)
}

/// Whether a column of this name might be meant as [`ENV`]: a similar word, or one with quotes or invisible characters around it.
pub(super) fn is_like_env(name: &str) -> bool {
    let word = name.trim_matches(|c: char| !c.is_alphanumeric());
    LIKE_ENV.iter().any(|like| word.eq_ignore_ascii_case(like)) || (is_env(word) && !is_env(name))
}

/// Whether a name is a number. A header with nothing else is a row of samples.
pub(super) fn is_number(name: &str) -> bool {
    name.parse::<f64>().is_ok()
}

/// The number of variables in a csv file, by its header alone.
pub(crate) fn width(path: &Path) -> Result<usize> {
    let table = Table::new(path, open(path)?, &SizeLimits::UNLIMITED)?;
    Ok(table.header.iter().filter(|name| !is_env(name)).count())
}

/// The variables of a csv file, and the number of environments by its column [`ENV`].
pub(crate) fn outline(path: &Path, limits: &SizeLimits) -> Result<(Vec<String>, usize)> {
    let mut table = Table::new(path, open(path)?, limits)?;
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

pub(super) fn read(path: &Path, file: File, targets: Option<&Path>, limits: &SizeLimits) -> Result<Raw> {
    let mut table = Table::new(path, file, limits)?;
    let env_column = table.header.iter().position(|name| is_env(name));
    let names: Vec<_> = table.header.iter().filter(|name| !is_env(name)).cloned().collect();
    if names.is_empty() {
        return Err(Error::file(path, "has no column of samples, expected one column per variable"));
    }
    // The targets come first so that the environment of each row can be checked where it stands.
    let targets = targets.map(|targets| read_targets(targets, &names, limits)).transpose()?;
    let (mut data, mut env, mut highest) = (Vec::new(), Vec::new(), 0);
    while table.advance()? {
        // The rows so far and this one.
        let rows = data.len() / names.len() + 1;
        limits.check_bytes("samples", rows, 8 * names.len() as u64).map_err(|problem| table.at(problem))?;
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
fn read_targets(path: &Path, names: &[String], limits: &SizeLimits) -> Result<Matrix<bool>> {
    let mut table = Table::new(path, open(path)?, limits)?;
    let expected = || {
        let listed = names.iter().take(LISTED).map(|name| format!("`{}`", shown(name)));
        let more = (names.len() > LISTED).then(|| "…".to_owned());
        listed.chain(more).collect::<Vec<_>>().join(", ")
    };
    let positions: HashMap<&str, usize> =
        names.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
    // The variable of each column; none for `env`.
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
        limits.check_bytes("targets", e + 1, names.len() as u64).map_err(|problem| table.at(problem))?;
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
    // There are as many rows as places, and no place is used twice, so every place is filled.
    let places: Vec<usize> = places.into_iter().flatten().collect();
    let flags = Matrix::from_rows(count, names.len(), flags);
    if places.is_sorted() {
        return Ok(flags);
    }
    Ok(Matrix::from_fn(count, names.len(), |e, j| flags[(places[e], j)]))
}
