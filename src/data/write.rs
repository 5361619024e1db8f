//! Writes the files that [`Dataset::read`] reads. The same data gives the same bytes.

use super::csv::{ENV, is_env, is_like_env, is_number};
use super::{Dataset, check_names, npz};
use crate::files::output::write_atomically;
use crate::{Error, Result};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// The length of an .npy header is a multiple of this.
const HEADER_GRAIN: usize = 64;

/// The extensions of files that can be written.
#[cfg(feature = "h5ad")]
const FORMATS: &str = ".npz, .csv or .h5ad";
#[cfg(not(feature = "h5ad"))]
const FORMATS: &str = ".npz or .csv";

/// The formats of data files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataFormat {
    Npz,
    Csv,
    #[cfg(feature = "h5ad")]
    H5ad,
}

impl DataFormat {
    /// The format of a file to write, if it can hold data with these names. Check it before long computations.
    pub(crate) fn of(path: &Path, names: &[String]) -> Result<DataFormat> {
        let format = match path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).as_deref() {
            Some("npz") => DataFormat::Npz,
            Some("csv") => DataFormat::Csv,
            #[cfg(feature = "h5ad")]
            Some("h5ad") => DataFormat::H5ad,
            Some(other) => {
                return Err(Error::file(path, format!("has the extension .{other}, expected {FORMATS}")));
            }
            None => return Err(Error::file(path, format!("has no extension, expected {FORMATS}"))),
        };
        check_names(names, names.len()).map_err(|problem| Error::file(path, problem))?;
        let all_numbers = names.iter().all(|name| is_number(name));
        let refused = |name: &&String| match format {
            // The reader would not take these for names of variables.
            DataFormat::Csv => is_env(name) || is_like_env(name) || name.trim() != *name || all_numbers,
            #[cfg(feature = "h5ad")]
            DataFormat::H5ad => name.contains('\0'),
            DataFormat::Npz => 4 * name.chars().count() as u64 > npz::MAX_NAME_BYTES || name.ends_with('\0'),
        };
        if let Some(name) = names.iter().find(refused) {
            let other = if format == DataFormat::Npz { ".csv" } else { ".npz" };
            let problem =
                format!("cannot hold a variable with the name `{name:.40}`, expected a {other} file for it");
            return Err(Error::file(path, problem));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Error::file(
                path,
                format!("is in {}, expected a folder that exists", folder.display()),
            ));
        }
        Ok(format)
    }
}

impl Dataset {
    /// Writes an `.npz`, `.csv` or, with the feature `h5ad`, `.h5ad` file, by the extension of `path`.
    ///
    /// Csv data with several environments or targets needs a second file, which is written
    /// [beside](Self::targets_beside) the first.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let environments = self.environments() > 1 || self.targets.as_slice().contains(&true);
        match DataFormat::of(path, &self.names)? {
            DataFormat::Npz => write_atomically(path, |writer| self.write_npz(writer, environments)),
            DataFormat::Csv => {
                if environments {
                    write_atomically(&Self::targets_beside(path), |writer| self.write_targets_csv(writer))?;
                }
                write_atomically(path, |writer| self.write_csv(writer, environments))
            }
            #[cfg(feature = "h5ad")]
            DataFormat::H5ad => {
                let bytes = super::h5ad::write(path, self)?;
                write_atomically(path, |writer| writer.write_all(&bytes))
            }
        }
    }

    /// The path to which [`write`](Self::write) writes the targets of csv data: `data.targets.csv` for `data.csv`.
    pub fn targets_beside(path: impl AsRef<Path>) -> PathBuf {
        path.as_ref().with_extension("targets.csv")
    }

    /// The environment of each row.
    fn env(&self) -> impl Iterator<Item = usize> {
        (0..self.environments()).flat_map(|e| std::iter::repeat_n(e, self.rows(e).len()))
    }

    fn write_npz(&self, writer: &mut (impl Write + Seek), environments: bool) -> io::Result<()> {
        in_archive(writer, |zip| self.fill_npz(zip, environments))
    }

    fn fill_npz<W: Write + Seek>(&self, zip: &mut ZipWriter<W>, environments: bool) -> io::Result<()> {
        let (rows, d) = (self.samples.rows(), self.dim());
        array(zip, "x", "<f8", &[rows, d], 8)?;
        for value in self.samples.as_slice() {
            zip.write_all(&value.to_le_bytes())?;
        }
        if environments {
            array(zip, "env", "<i8", &[rows], 8)?;
            for e in self.env() {
                zip.write_all(&(e as i64).to_le_bytes())?;
            }
            array(zip, "targets", "|b1", &[self.environments(), d], 1)?;
            let flags: Vec<u8> = self.targets.as_slice().iter().map(|flag| u8::from(*flag)).collect();
            zip.write_all(&flags)?;
        }
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        array(zip, "names", &format!("<U{longest}"), &[d], 4 * longest)?;
        for name in &self.names {
            let letters = name.chars().chain(std::iter::repeat('\0')).take(longest);
            for letter in letters {
                zip.write_all(&u32::from(letter).to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn write_csv(&self, writer: &mut impl Write, environments: bool) -> io::Result<()> {
        header(writer, &self.names, environments)?;
        for (i, e) in self.env().enumerate() {
            for (j, value) in self.samples.row(i).iter().enumerate() {
                // The shortest text that reads back as the same number.
                write!(writer, "{}{value:?}", if j > 0 { "," } else { "" })?;
            }
            if environments {
                write!(writer, ",{e}")?;
            }
            writeln!(writer)?;
        }
        Ok(())
    }

    fn write_targets_csv(&self, writer: &mut impl Write) -> io::Result<()> {
        header(writer, &self.names, true)?;
        for e in 0..self.environments() {
            for flag in self.targets.row(e) {
                write!(writer, "{},", u8::from(*flag))?;
            }
            writeln!(writer, "{e}")?;
        }
        Ok(())
    }
}

/// A named array of an `.npz` file.
pub(crate) struct Array<'a> {
    pub name: &'a str,
    pub shape: Vec<usize>,
    pub values: &'a [f64],
}

/// Writes arrays of float64; the same arrays give the same bytes.
pub(crate) fn write_arrays(path: &Path, arrays: &[Array<'_>]) -> Result<()> {
    write_atomically(path, |writer| {
        in_archive(writer, |zip| {
            for Array { name, shape, values } in arrays {
                array(zip, name, "<f8", shape, 8)?;
                for value in *values {
                    zip.write_all(&value.to_le_bytes())?;
                }
            }
            Ok(())
        })
    })
}

/// Writes a whole archive.
///
/// After an error, a `ZipWriter` still tries to finish the archive and prints further errors. An [`ErrorKeeper`] therefore hides
/// errors from it, and returns the first one at the end.
fn in_archive<W: Write + Seek>(
    writer: W,
    fill: impl FnOnce(&mut ZipWriter<ErrorKeeper<W>>) -> io::Result<()>,
) -> io::Result<()> {
    let mut zip = ZipWriter::new(ErrorKeeper { writer, position: 0, failed: None });
    fill(&mut zip)?;
    zip.finish()?.failed.map_or(Ok(()), Err)
}

struct ErrorKeeper<W> {
    writer: W,
    /// The position of the next byte.
    position: u64,
    failed: Option<io::Error>,
}

impl<W> ErrorKeeper<W> {
    fn unless_failed(&mut self, act: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = act(&mut self.writer).err();
        }
    }
}

impl<W: Write> Write for ErrorKeeper<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_failed(|writer| writer.write_all(bytes));
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_failed(W::flush);
        Ok(())
    }
}

impl<W: Seek> Seek for ErrorKeeper<W> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.unless_failed(|writer| writer.seek(to).map(|_| ()));
        self.position = match to {
            io::SeekFrom::Start(at) => at,
            io::SeekFrom::Current(by) => self.position.saturating_add_signed(by),
            io::SeekFrom::End(_) => self.position,
        };
        Ok(self.position)
    }
}

/// The first line: names, quoted where need be, and last the environment.
fn header(writer: &mut impl Write, names: &[String], environments: bool) -> io::Result<()> {
    let mut line = ::csv::Writer::from_writer(writer);
    line.write_record(names.iter().map(String::as_str).chain(environments.then_some(ENV)))?;
    line.flush()
}

/// Begins array `name` with entries of `item` bytes.
fn array<W: Write + Seek>(
    zip: &mut ZipWriter<W>,
    name: &str,
    descr: &str,
    shape: &[usize],
    item: usize,
) -> io::Result<()> {
    let bytes = shape.iter().fold(item as u64, |product, n| product.saturating_mul(*n as u64));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        // Every archive has the same date, so that its bytes depend on the data alone.
        .last_modified_time(DateTime::default())
        .large_file(bytes > u64::from(u32::MAX) - (1 << 16));
    zip.start_file(format!("{name}.npy"), options)?;
    let lengths: Vec<_> = shape.iter().map(|n| format!("{n},")).collect();
    let mut text = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}",
        // As Python writes a tuple: (3,) but (3, 4).
        if shape.len() == 1 {
            lengths[0].clone()
        } else {
            lengths.join(" ").trim_end_matches(',').to_owned()
        }
    );
    let start = b"\x93NUMPY\x01\x00";
    let length = (start.len() + 2 + text.len() + 1).next_multiple_of(HEADER_GRAIN) - start.len() - 2;
    text = format!("{text:<width$}\n", width = length - 1);
    zip.write_all(start)?;
    zip.write_all(&u16::try_from(length).map_err(io::Error::other)?.to_le_bytes())?;
    zip.write_all(text.as_bytes())
}
