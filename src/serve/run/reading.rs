//! What it takes to read a file that was uploaded: looked at before that is done.

use crate::data::{shape_of_npz, width_of_csv};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A number of a csv file: where it is read to, which grows by doubling, and its place among its environment's samples.
const CSV_NUMBER: f64 = 8.0 * 3.0;
/// Bytes of a csv line, as it is read and split.
const CSV_LINE: f64 = 3.0;
/// A number of an .npz file: where it is read to, and its place among its environment's samples.
const NPZ_NUMBER: f64 = 8.0 * 2.0;
/// A byte of the other arrays of an .npz file, as they are read and as they are kept.
const NPZ_OTHER: f64 = 2.0;
/// A byte of a model's file: as it is read, and as numbers of twice the size.
const MODEL_BYTE: f64 = 3.0;

/// Arrays of an .npz file; there are four that anyone asked for.
const MOST_FILES: u64 = 1000;
/// What every entry of a zip file's list of files begins with.
const LISTED: u32 = u32::from_be_bytes(*b"PK\x01\x02");

/// What is known of a dataset before it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// So many variables.
    pub variables: usize,
    /// At most so many bytes of memory, roughly.
    pub bytes: f64,
}

impl Reading {
    /// Of an .npz file, by what its headers say: the reader takes them at their word and refuses a file that has more.
    pub fn of_npz(path: &Path) -> Result<Reading> {
        let files = files_listed(path)?;
        if files > MOST_FILES {
            let problem = format!("lists {files} arrays, expected at most {MOST_FILES}");
            return Err(Error::file(path, problem));
        }
        let (rows, variables) = shape_of_npz(path)?;
        let cannot =
            |error: zip::result::ZipError| Error::file(path, format!("is not an .npz file: {error}"));
        let mut archive = zip::ZipArchive::new(BufReader::new(open(path)?)).map_err(cannot)?;
        let mut others = 0.0;
        for place in 0..archive.len() {
            let entry = archive.by_index_raw(place).map_err(cannot)?;
            if !entry.name().is_ok_and(|name| name == "x.npy") {
                others += entry.size() as f64;
            }
        }
        let bytes = NPZ_NUMBER * rows as f64 * variables as f64 + NPZ_OTHER * others;
        Ok(Reading { variables, bytes })
    }

    /// Of a csv file, by its header and the number of its separators.
    pub fn of_csv(path: &Path) -> Result<Reading> {
        let variables = width_of_csv(path)?;
        let (mut numbers, mut line, mut longest, mut last) = (1u64, 0u64, 0u64, 0u8);
        each_block(path, |block| {
            for byte in block {
                line += 1;
                match byte {
                    // Lines end in either way, or in both at once.
                    b'\n' if last == b'\r' => {}
                    b'\n' | b'\r' => {
                        (numbers, longest) = (numbers + 1, longest.max(line));
                        line = 0;
                    }
                    b',' => numbers += 1,
                    _ => {}
                }
                last = *byte;
            }
        })?;
        let longest = longest.max(line);
        Ok(Reading { variables, bytes: CSV_NUMBER * numbers as f64 + CSV_LINE * longest as f64 })
    }

    /// Memory for a model in a file of so many bytes.
    pub fn bytes_of_model(file: u64) -> f64 {
        MODEL_BYTE * file as f64
    }
}

/// Files that a zip file lists, whatever it says of their number: a list of many millions fits into an upload, and is read whole.
fn files_listed(path: &Path) -> Result<u64> {
    let (mut last, mut count) = (0u32, 0u64);
    each_block(path, |block| {
        for byte in block {
            last = last << 8 | u32::from(*byte);
            count += u64::from(last == LISTED);
        }
    })?;
    Ok(count)
}

fn each_block(path: &Path, mut each: impl FnMut(&[u8])) -> Result<()> {
    let cannot = |source| Error::Io { action: "read", path: path.into(), source };
    let mut reader = BufReader::with_capacity(1 << 16, open(path)?);
    loop {
        let block = reader.fill_buf().map_err(cannot)?;
        if block.is_empty() {
            return Ok(());
        }
        each(block);
        let read = block.len();
        reader.consume(read);
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| Error::Io { action: "read", path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_is_counted_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.csv");
        std::fs::write(&path, "a,b,env\n1,2,0\n3,4,0").unwrap();
        let found = Reading::of_csv(&path).unwrap();
        assert_eq!(found, Reading { variables: 2, bytes: 9.0 * CSV_NUMBER + 8.0 * CSV_LINE });
        // Old files of a Mac have no other ends of lines, and the reader knows that.
        let lines = ["a,b", "1,2", "3,4", ""];
        let bytes_of = |end: &str| {
            std::fs::write(&path, lines.join(end)).unwrap();
            Reading::of_csv(&path).unwrap().bytes
        };
        assert_eq!(bytes_of("\r"), bytes_of("\n"));
        assert!((bytes_of("\r\n") - bytes_of("\n")).abs() <= CSV_LINE);
        let names: Vec<String> = (0..100_000).map(|j| format!("x{j}")).collect();
        std::fs::write(&path, names.join(",")).unwrap();
        assert_eq!(Reading::of_csv(&path).unwrap().variables, 100_000);
    }

    #[test]
    fn a_list_of_very_many_arrays_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.npz");
        std::fs::write(&path, b"PK\x01\x02".repeat(1001)).unwrap();
        let sentence = Reading::of_npz(&path).unwrap_err().to_string();
        assert!(sentence.contains("lists 1001 arrays, expected at most 1000"), "{sentence}");
    }

    #[test]
    fn every_array_of_an_npz_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.npz");
        let all = (0..2).map(|e| crate::Matrix::from_fn(50, 4, |i, j| (e + i * j) as f64)).collect();
        let data = crate::data::Dataset::from_environments(all).unwrap();
        let long = (0..4).map(|j| format!("{j}{}", "x".repeat(1000))).collect();
        data.with_names(long).unwrap().write(&path).unwrap();
        let found = Reading::of_npz(&path).unwrap();
        assert_eq!(found.variables, 4);
        assert_eq!(files_listed(&path).unwrap(), 4, "x, env, targets and names");
        // Names of a thousand letters, four bytes each in the file.
        assert!(found.bytes > 100.0 * 4.0 * NPZ_NUMBER + 4.0 * 4000.0, "{found:?}");
    }
}
