//! Reads the `.npz` form: `x`, and optionally `env`, `targets` and `names`.

use super::bounded::Bounded;
use super::npy::{self, Header, Number, Value};
use super::read::Raw;
use super::{SizeLimits, check_names, default_names};
use crate::{Error, Matrix, Result};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;

type Archive = ZipArchive<BufReader<File>>;

/// The longest name in bytes. The limit keeps a hostile type string from asking for memory.
pub(super) const MAX_NAME_BYTES: u64 = 16 * 1024;

/// The largest list of entries of an archive, in bytes.
const MOST_DIRECTORY: u64 = 1 << 20;
/// Names listed in an error.
const LISTED: usize = 20;

pub(super) fn read(path: &Path, file: File, limits: &SizeLimits) -> Result<Raw> {
    read_arrays(&mut open(path, file)?, limits).map_err(|problem| Error::file(path, problem))
}

/// The numbers of rows and variables of an archive, from its header alone.
pub(super) fn shape(path: &Path, file: File) -> Result<(usize, usize)> {
    let layout = open(path, file)
        .and_then(|mut archive| read_layout(&mut archive).map_err(|problem| Error::file(path, problem)))?;
    Ok((layout.rows, layout.dim))
}

fn open(path: &Path, file: File) -> Result<Archive> {
    let not = |error: &dyn std::fmt::Display| {
        Error::file(path, format!("is not an .npz file, expected a zip of arrays: {error}"))
    };
    // The zip crate reads the list of entries as a whole, and it takes many times its size in memory. So it is first read with a limit.
    let mut bounded = Bounded::new(BufReader::new(&file));
    bounded.allow(MOST_DIRECTORY);
    let listed = ZipArchive::new(&mut bounded).map(|_| ());
    if bounded.exceeded {
        let problem =
            format!("has a list of more than {MOST_DIRECTORY} bytes, expected that of a few arrays");
        return Err(Error::file(path, problem));
    }
    listed.map_err(|error| not(&error))?;
    ZipArchive::new(BufReader::new(file)).map_err(|error| not(&error))
}

fn read_arrays(archive: &mut Archive, limits: &SizeLimits) -> std::result::Result<Raw, String> {
    // The samples are large, so they are read last, when everything else is known to fit them.
    let layout = read_layout(archive)?;
    let (rows, dim) = (layout.rows, layout.dim);
    limits.check_variables(dim)?;
    limits.check_bytes("samples", rows, (dim as u64).saturating_mul(8))?;
    check_spelling(archive)?;
    let names = read_names(archive, dim, limits)?.unwrap_or_else(|| default_names(dim));
    let targets = read_targets(archive, rows, dim)?;
    let env = read_env(archive, rows, targets.as_ref().map(Matrix::rows))?;
    let samples = read_samples(archive, &layout, &names)?;
    Ok(Raw { samples, env, targets: targets.unwrap_or_else(|| Matrix::full(1, dim, false)), names })
}

/// The arrays of an archive: each is a file that ends in `.npy`.
fn array_names(archive: &Archive) -> impl Iterator<Item = String> {
    // A file whose name is not text cannot be one of the arrays.
    archive.file_names().flatten().filter_map(|file| Some(file.strip_suffix(".npy")?.to_owned()))
}

fn has(archive: &Archive, name: &str) -> bool {
    array_names(archive).any(|found| found == name)
}

/// Refuses optional arrays that differ from their names in capital letters, which would otherwise be ignored.
fn check_spelling(archive: &Archive) -> std::result::Result<(), String> {
    for expected in ["env", "targets", "names"] {
        let like = |name: &String| name.eq_ignore_ascii_case(expected);
        if let Some(found) = array_names(archive).find(like)
            && !has(archive, expected)
        {
            return Err(format!("has the array `{found}`, expected `{expected}`"));
        }
    }
    Ok(())
}

/// Opens array `name` and hands its header, its stored size and the reader at its first entry to `read`.
fn with_array<T>(
    archive: &mut Archive,
    name: &str,
    read: impl FnOnce(Header, u64, &mut dyn Read) -> std::result::Result<T, String>,
) -> std::result::Result<T, String> {
    let mut entry = archive
        .by_name(&format!("{name}.npy"))
        .map_err(|error| format!("array `{name}` cannot be read: {error}"))?;
    let stored = entry.size();
    Header::read(&mut entry)
        .and_then(|header| read(header, stored, &mut entry))
        .map_err(|problem| format!("array `{name}` {problem}"))
}

/// The shape and type of `x`, from its header.
struct ArrayLayout {
    rows: usize,
    dim: usize,
    number: Number,
    fortran: bool,
}

fn read_layout(archive: &mut Archive) -> std::result::Result<ArrayLayout, String> {
    if !has(archive, "x") {
        let mut found: Vec<_> = array_names(archive).map(|name| format!("`{name:.60}`")).collect();
        found.sort();
        if found.len() > LISTED {
            found.truncate(LISTED);
            found.push("…".into());
        }
        let found = if found.is_empty() { "nothing".into() } else { found.join(", ") };
        return Err(format!("has no array `x`, found {found}"));
    }
    with_array(archive, "x", |header, stored, _| {
        let Some(number) = header.number().filter(|number| number.is_float()) else {
            return Err(format!("has dtype {}, expected float32 or float64", header.descr));
        };
        let &[rows, dim] = header.shape.as_slice() else {
            return Err(format!("has shape {:?}, expected [rows, variables]", header.shape));
        };
        if rows == 0 || dim == 0 {
            return Err(format!("has shape {:?}, expected at least one row and one column", header.shape));
        }
        header.check_size(number.size() as u64, stored)?;
        Ok(ArrayLayout { rows, dim, number, fortran: header.fortran })
    })
}

fn read_samples(
    archive: &mut Archive,
    layout: &ArrayLayout,
    names: &[String],
) -> std::result::Result<Matrix<f64>, String> {
    let &ArrayLayout { rows, dim, number, fortran } = layout;
    with_array(archive, "x", |_, _, reader| {
        let mut data = reserve(rows, dim)?;
        npy::for_each(reader, number.size(), rows * dim, |k, bytes| {
            let value = number.decode(bytes).as_f64();
            let (i, j) = if fortran { (k % rows, k / rows) } else { (k / dim, k % dim) };
            if !value.is_finite() {
                return Err(format!(
                    "holds {value} at row {i}, column `{}`, expected a finite number",
                    names[j]
                ));
            }
            data[i * dim + j] = value;
            Ok(())
        })?;
        Ok(Matrix::from_rows(rows, dim, data))
    })
}

/// Zeros for `rows` × `dim` numbers, or an error if they do not fit into memory.
///
/// The operating system provides zeroed memory only as it is written to, so an archive that lies about its size costs nothing.
fn reserve(rows: usize, dim: usize) -> std::result::Result<Vec<f64>, String> {
    let fits = |&count: &usize| Vec::<f64>::new().try_reserve_exact(count).is_ok();
    match rows.checked_mul(dim).filter(fits) {
        Some(count) => Ok(vec![0.0; count]),
        None => Err(format!("has shape [{rows}, {dim}], which does not fit into memory")),
    }
}

fn read_env(
    archive: &mut Archive,
    rows: usize,
    environments: Option<usize>,
) -> std::result::Result<Vec<usize>, String> {
    if !has(archive, "env") {
        return match environments {
            None | Some(1) => Ok(Vec::new()),
            Some(count) => {
                Err(format!("`targets` has {count} rows but there is no array `env`, expected both"))
            }
        };
    }
    let mut highest = 0;
    let env = with_array(archive, "env", |header, stored, reader| {
        let number = header.number().filter(|number| number.is_integer());
        let number = number.ok_or_else(|| format!("has dtype {}, expected integers", header.descr))?;
        if header.shape != [rows] {
            return Err(format!("has shape {:?}, expected [{rows}], one entry per row of `x`", header.shape));
        }
        header.check_size(number.size() as u64, stored)?;
        let mut env = Vec::new();
        npy::for_each(reader, number.size(), rows, |i, bytes| {
            let Value::Integer(value) = number.decode(bytes) else { return Ok(()) };
            match (usize::try_from(value), environments) {
                (Ok(e), Some(count)) if e < count => env.push(e),
                (Ok(e), None) => {
                    highest = highest.max(e);
                    env.push(e);
                }
                (_, Some(count)) => {
                    let last = count - 1;
                    return Err(format!(
                        "holds {value} at row {i}, expected 0 to {last}, the {count} rows of `targets`"
                    ));
                }
                (Err(_), None) => return Err(format!("holds {value} at row {i}, expected integers from 0")),
            }
            Ok(())
        })?;
        Ok(env)
    })?;
    if highest > 0 {
        return Err(format!(
            "array `env` names environments up to {highest} but there is no array `targets`, \
             expected one row of `targets` per environment when there are several"
        ));
    }
    Ok(env)
}

fn read_targets(
    archive: &mut Archive,
    rows: usize,
    dim: usize,
) -> std::result::Result<Option<Matrix<bool>>, String> {
    if !has(archive, "targets") {
        return Ok(None);
    }
    with_array(archive, "targets", |header, stored, reader| {
        let number = header.number();
        let number =
            number.ok_or_else(|| format!("has dtype {}, expected bool, integers or floats", header.descr))?;
        let environments = match header.shape.as_slice() {
            &[environments, columns] if environments > 0 && columns == dim => environments,
            _ => {
                return Err(format!(
                    "has shape {:?}, expected [environments, {dim}]: one row per environment, \
                 one column per column of `x`",
                    header.shape
                ));
            }
        };
        if environments > rows {
            return Err(format!("has {environments} rows, expected at most the {rows} rows of `x`"));
        }
        header.check_size(number.size() as u64, stored)?;
        // Grows with the entries that are really there, because the declared size may be false.
        let mut flags = Vec::new();
        npy::for_each(reader, number.size(), environments * dim, |k, bytes| {
            let value = number.decode(bytes).as_f64();
            if value != 0.0 && value != 1.0 {
                let (i, j) =
                    if header.fortran { (k % environments, k / environments) } else { (k / dim, k % dim) };
                return Err(format!("holds {value} at [{i}, {j}], expected 0 or 1"));
            }
            flags.push(value == 1.0);
            Ok(())
        })?;
        Ok(Some(Matrix::from_fn(environments, dim, |i, j| {
            flags[if header.fortran { j * environments + i } else { i * dim + j }]
        })))
    })
}

fn read_names(
    archive: &mut Archive,
    dim: usize,
    limits: &SizeLimits,
) -> std::result::Result<Option<Vec<String>>, String> {
    if !has(archive, "names") {
        return Ok(None);
    }
    let names = with_array(archive, "names", |header, stored, reader| {
        let text = header.text().filter(|text| text.size <= MAX_NAME_BYTES);
        let text = text.ok_or_else(|| format!("has dtype {}, expected strings (U or S)", header.descr))?;
        if header.shape != [dim] {
            return Err(format!(
                "has shape {:?}, expected [{dim}], one name per column of `x`",
                header.shape
            ));
        }
        header.check_size(text.size, stored)?;
        limits.check_bytes("names", dim, text.size)?;
        let length = usize::try_from(text.size).expect("names are short");
        let mut names = Vec::new();
        npy::for_each(reader, length, dim, |j, bytes| {
            names.push(
                text.decode(bytes).ok_or_else(|| format!("holds invalid text at {j}, expected Unicode"))?,
            );
            Ok(())
        })?;
        Ok(names)
    })?;
    check_names(&names, dim).map_err(|problem| format!("in array `names`, {problem}"))?;
    Ok(Some(names))
}
