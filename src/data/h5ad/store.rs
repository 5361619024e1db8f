//! An open `.h5ad` file: its strings, its columns, and errors that name what there is.

use super::listed;
use crate::{Error, Result};
use hdf5_pure::{AttrValue, DType, File, FormatError, Group};
use std::io;
use std::path::{Path, PathBuf};

/// No filter makes data smaller than this: deflate reaches 1032.
const HIGHEST_COMPRESSION: u64 = 1100;
/// The most bytes of the strings of one array.
const MOST_STRING_BYTES: usize = 1 << 30;

pub(super) struct Store {
    path: PathBuf,
    file: File,
    /// The length of the file.
    bytes: u64,
}

impl Store {
    pub(super) fn open(path: &Path) -> Result<Store> {
        let fail = |source| Error::Io { action: "read", path: path.into(), source };
        let bytes = crate::data::read::open(path)?.metadata().map_err(fail)?.len();
        let file = File::open_streaming(path).map_err(|error| match error {
            hdf5_pure::Error::Io(source) => Error::Io { action: "read", path: path.into(), source },
            other => Error::file(
                path,
                format!("is not an .h5ad file that can be read ({other}), expected one that anndata wrote"),
            ),
        })?;
        Ok(Store { path: path.into(), file, bytes })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An error that names the file.
    pub(super) fn error(&self, problem: impl Into<String>) -> Error {
        Error::file(&self.path, problem)
    }

    /// What went wrong in the file at `place`.
    pub(super) fn failed(&self, place: &str, error: &hdf5_pure::Error) -> Error {
        match error {
            hdf5_pure::Error::Io(source) => Error::Io {
                action: "read",
                path: self.path.clone(),
                source: io::Error::new(source.kind(), source.to_string()),
            },
            hdf5_pure::Error::Format(FormatError::UnsupportedFilter(id)) => self.error(format!(
                "{place} is compressed by the filter {id}{}, expected gzip, lzf or no compression: write the file again with \
                 adata.write_h5ad(path, compression=\"gzip\")",
                known_filter(*id)
            )),
            other => self.error(format!("{place} cannot be read: {other}")),
        }
    }

    /// A group; an error that lists what there is if it is missing.
    pub(super) fn group(&self, place: &str) -> Result<Group> {
        self.file.group(place).map_err(|error| match error {
            hdf5_pure::Error::Format(FormatError::PathNotFound(_)) => {
                self.error(format!("has no {place}, expected one as anndata writes it"))
            }
            other => self.failed(place, &other),
        })
    }

    pub(super) fn is_group(&self, place: &str) -> bool {
        self.file.group(place).is_ok()
    }

    pub(super) fn has(&self, place: &str) -> bool {
        self.file.group(place).is_ok() || self.file.dataset(place).is_ok()
    }

    /// An array that the file is large enough to hold: the reader allocates by what its header says.
    pub(super) fn array(&self, place: &str) -> Result<hdf5_pure::Dataset> {
        let fail = |error: hdf5_pure::Error| self.failed(place, &error);
        let array = self.file.dataset(place).map_err(fail)?;
        let shape = array.shape().map_err(fail)?;
        let chunk = array.chunk_shape().map_err(fail)?.unwrap_or_default();
        let width = array.element_size().map_err(fail)?;
        let most = self.bytes.saturating_mul(HIGHEST_COMPRESSION);
        let fits = |sizes: &[u64]| {
            let bytes = sizes.iter().try_fold(width, |all, size| all.checked_mul(*size));
            bytes.is_some_and(|bytes| bytes <= most)
        };
        match fits(&shape) && fits(&chunk) {
            true => Ok(array),
            false => Err(self.error(format!(
                "{place} has the shape {shape:?} in chunks of {chunk:?} and {width} bytes an entry, more than {} bytes can hold: the file is damaged",
                self.bytes
            ))),
        }
    }

    /// The names of what a group holds, in order.
    pub(super) fn members(&self, place: &str) -> Result<Vec<String>> {
        let group = self.group(place)?;
        let fail = |error: hdf5_pure::Error| self.failed(place, &error);
        let mut names = group.datasets().map_err(fail)?;
        names.extend(group.groups().map_err(fail)?);
        names.sort();
        Ok(names)
    }

    /// A text attribute of a group.
    pub(super) fn attribute(&self, place: &str, name: &str) -> Result<Option<String>> {
        let attributes = self.group(place)?.attrs().map_err(|error| self.failed(place, &error))?;
        Ok(attributes.get(name).and_then(text))
    }

    /// The index of `obs` or `var`: one name for each of its rows.
    pub(super) fn index(&self, frame: &str, expected: usize) -> Result<Vec<String>> {
        let name = self.attribute(frame, "_index")?.unwrap_or_else(|| "_index".into());
        let names = self.column(frame, &name)?;
        if names.len() != expected {
            return Err(
                self.error(format!("{frame} has {} rows, expected {expected} as in the matrix", names.len()))
            );
        }
        Ok(names)
    }

    /// A column of `obs` or `var` as text: strings, categories, numbers and truth values. Missing values are empty.
    pub(super) fn column(&self, frame: &str, name: &str) -> Result<Vec<String>> {
        let place = format!("{frame}/{name}");
        if !self.has(&place) {
            let mut columns = self.members(frame)?;
            columns.retain(|column| column != "__categories");
            let (list, count) = (columns.iter().map(String::as_str), columns.len());
            return Err(self.error(format!(
                "{frame} has no column '{name:.60}', expected one of {}",
                listed(list, count)
            )));
        }
        if !self.is_group(&place) {
            return self.older_categories(frame, name, &place);
        }
        let members = self.members(&place)?;
        let has = |member: &str| members.iter().any(|known| known == member);
        if has("codes") && has("categories") {
            let categories = self.texts(&format!("{place}/categories"))?;
            return self.decoded(&place, &format!("{place}/codes"), &categories);
        }
        if has("values") && has("mask") {
            let values = self.texts(&format!("{place}/values"))?;
            let mask = self.texts(&format!("{place}/mask"))?;
            if mask.len() != values.len() {
                return Err(self.error(format!(
                    "{place} has {} values and {} in its mask, expected as many",
                    values.len(),
                    mask.len()
                )));
            }
            let masked = |(value, hidden): (String, String)| {
                if hidden == "True" || hidden == "1" { String::new() } else { value }
            };
            return Ok(values.into_iter().zip(mask).map(masked).collect());
        }
        Err(self.error(format!(
            "{place} has {}, expected a column as anndata writes it",
            listed(members.iter().map(String::as_str), members.len())
        )))
    }

    /// A column that is one array; files of anndata before 0.8 keep the categories of its codes apart.
    fn older_categories(&self, frame: &str, name: &str, place: &str) -> Result<Vec<String>> {
        let apart = format!("{frame}/__categories/{name}");
        if self.has(&apart) {
            let categories = self.texts(&apart)?;
            return self.decoded(place, place, &categories);
        }
        self.texts(place)
    }

    /// The categories that codes stand for; −1 is a missing value.
    fn decoded(&self, place: &str, codes: &str, categories: &[String]) -> Result<Vec<String>> {
        let codes = self.array(codes)?.read_i64().map_err(|error| self.failed(codes, &error))?;
        codes
            .into_iter()
            .map(|code| match usize::try_from(code) {
                Err(_) => Ok(String::new()),
                Ok(code) => categories.get(code).cloned().ok_or_else(|| {
                    self.error(format!(
                        "{place} has the code {code}, expected one below {}, its categories",
                        categories.len()
                    ))
                }),
            })
            .collect()
    }

    /// A one-dimensional array as text.
    fn texts(&self, place: &str) -> Result<Vec<String>> {
        let array = self.array(place)?;
        let fail = |error: hdf5_pure::Error| self.failed(place, &error);
        match array.dtype().map_err(fail)? {
            DType::VariableLengthString => {
                let bytes = array.vlen_string_payload_size().map_err(fail)?;
                if usize::try_from(bytes).is_ok_and(|bytes| bytes <= MOST_STRING_BYTES) {
                    array.read_string().map_err(fail)
                } else {
                    Err(self.error(format!(
                        "{place} has {bytes} bytes of text, expected at most {MOST_STRING_BYTES}"
                    )))
                }
            }
            DType::String => array.read_string().map_err(fail),
            DType::Enum(names) => {
                let codes = array.read_raw().map_err(fail)?;
                // Truth values, which h5py stores as an enumeration of one byte.
                if names.len() != 2 {
                    return Err(self.error(format!("{place} has values of another enumeration than truth values, expected text or numbers")));
                }
                Ok(codes
                    .into_iter()
                    .map(|code| if code == 0 { "False" } else { "True" }.to_owned())
                    .collect())
            }
            DType::F32 | DType::F64 => Ok(array
                .read_f64()
                .map_err(fail)?
                .iter()
                .map(|value| if value.is_nan() { String::new() } else { value.to_string() })
                .collect()),
            DType::U64 => Ok(array.read_u64().map_err(fail)?.iter().map(u64::to_string).collect()),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 => {
                Ok(array.read_i64().map_err(fail)?.iter().map(i64::to_string).collect())
            }
            other => Err(self.error(format!(
                "{place} has values of the type {other}, expected text, categories, numbers or truth values"
            ))),
        }
    }
}

/// The text of an attribute.
pub(super) fn text(value: &AttrValue) -> Option<String> {
    match value {
        AttrValue::String(text)
        | AttrValue::AsciiString(text)
        | AttrValue::VarLenString(text)
        | AttrValue::StringSized { value: text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// What filters of HDF5 are called, among those that anndata's users have.
fn known_filter(id: u16) -> &'static str {
    match id {
        32_001 => " (blosc)",
        32_004 => " (lz4)",
        32_008 => " (bitshuffle)",
        32_015 => " (zstd)",
        32_026 => " (blosc2)",
        _ => "",
    }
}
