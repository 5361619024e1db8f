//! What it costs to read an uploaded file, found out before it is read.

use crate::data::{shape_of_npz, width_of_csv};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Bytes for a number of a csv file: in the buffer, which grows by doubling, and among the samples of its environment.
const CSV_NUMBER: f64 = 8.0 * 3.0;
/// Bytes for a byte of a csv line, as it is read and split.
const CSV_LINE: f64 = 3.0;
/// Bytes for a number of an .npz file: in the buffer, and among the samples of its environment.
const NPZ_NUMBER: f64 = 8.0 * 2.0;
/// Bytes for a byte of the other arrays of an .npz file, as they are read and as they are kept.
const NPZ_OTHER: f64 = 2.0;
/// Bytes for a byte of a model's file: as it is read, and as numbers of twice the size.
const MODEL_BYTE: f64 = 3.0;

/// The most arrays of an .npz file; skds knows four.
const MOST_FILES: u64 = 1000;
/// The first bytes of every entry in a zip file's list of files.
const LISTED: u32 = u32::from_be_bytes(*b"PK\x01\x02");

/// What is known of a dataset before it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadCost {
    /// The number of variables.
    pub variables: usize,
    /// Bytes of memory for reading it, at most and roughly.
    pub bytes: f64,
}

impl ReadCost {
    /// The cost of an .npz file, by its headers. The reader refuses a file that holds more than they say.
    pub(crate) fn of_npz(path: &Path) -> Result<ReadCost> {
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
        Ok(ReadCost { variables, bytes })
    }

    /// The cost of a csv file, by its header and the number of its separators.
    pub(crate) fn of_csv(path: &Path) -> Result<ReadCost> {
        let variables = width_of_csv(path)?;
        let (mut numbers, mut line, mut longest, mut last) = (1u64, 0u64, 0u64, 0u8);
        each_block(path, |block| {
            for byte in block {
                line += 1;
                match byte {
                    // Lines end with either character or with both.
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
        Ok(ReadCost { variables, bytes: CSV_NUMBER * numbers as f64 + CSV_LINE * longest as f64 })
    }

    /// Bytes of memory for reading a model from a file of so many bytes.
    pub(crate) fn bytes_of_model(file: u64) -> f64 {
        MODEL_BYTE * file as f64
    }
}

/// The number of files that a zip file really lists. A list of many millions fits into an upload, and the reader would read all
/// of it.
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
        let found = ReadCost::of_csv(&path).unwrap();
        assert_eq!(found, ReadCost { variables: 2, bytes: 9.0 * CSV_NUMBER + 8.0 * CSV_LINE });
        // Lines of old Mac files end with \\r alone, and the reader knows that.
        let lines = ["a,b", "1,2", "3,4", ""];
        let bytes_of = |end: &str| {
            std::fs::write(&path, lines.join(end)).unwrap();
            ReadCost::of_csv(&path).unwrap().bytes
        };
        assert_eq!(bytes_of("\r"), bytes_of("\n"));
        assert!((bytes_of("\r\n") - bytes_of("\n")).abs() <= CSV_LINE);
        let names: Vec<String> = (0..100_000).map(|j| format!("x{j}")).collect();
        std::fs::write(&path, names.join(",")).unwrap();
        assert_eq!(ReadCost::of_csv(&path).unwrap().variables, 100_000);
    }

    #[test]
    fn a_list_of_very_many_arrays_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.npz");
        std::fs::write(&path, b"PK\x01\x02".repeat(1001)).unwrap();
        let sentence = ReadCost::of_npz(&path).unwrap_err().to_string();
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
        let found = ReadCost::of_npz(&path).unwrap();
        assert_eq!(found.variables, 4);
        assert_eq!(files_listed(&path).unwrap(), 4, "x, env, targets and names");
        // Names of a thousand letters, four bytes each in the file.
        assert!(found.bytes > 100.0 * 4.0 * NPZ_NUMBER + 4.0 * 4000.0, "{found:?}");
    }
}
