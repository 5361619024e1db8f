//! Parameters as safetensors files.

use super::Parameters;
use super::container::{Checked, Container, names_of};
use crate::files::{hash, output};
use crate::{Error, Result, Scalar};
use safetensors::tensor::{Dtype, TensorInfo};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of a header at most. Names, functions and logs of real models take a few megabytes, and while a header is
/// taken apart, each of its bytes may take a dozen in memory.
pub(super) const MOST_HEADER: usize = 16 << 20;
impl Parameters<f64> {
    /// Reads a safetensors file of float32 or float64 tensors.
    pub fn read(path: &Path) -> Result<Parameters<f64>> {
        TensorFile::read(path)?.parameters("")
    }

    /// Parameters from named arrays, as a file has them: names, shapes and entries, and the file's metadata, such as the `activation`
    /// of an MLP.
    ///
    /// ```
    /// use skds::prelude::*;
    ///
    /// let tensors = [
    ///     ("weights".to_owned(), vec![1, 1], vec![-1.0]),
    ///     ("biases".to_owned(), vec![1], vec![0.5]),
    ///     ("log_noise".to_owned(), vec![1], vec![0.0]),
    /// ];
    /// let parameters = Parameters::from_tensors(&tensors, &Default::default())?;
    /// assert_eq!(parameters.biases, [0.5]);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn from_tensors(
        tensors: &[(String, Vec<usize>, Vec<f64>)],
        metadata: &BTreeMap<String, String>,
    ) -> Result<Parameters<f64>> {
        let mut header = BTreeMap::from([("__metadata__", Entry::Metadata(metadata.clone()))]);
        let mut data = Vec::new();
        for (name, shape, values) in tensors {
            let start = data.len();
            values.iter().for_each(|value| data.extend(value.to_le_bytes()));
            let data_offsets = (start, data.len());
            header.insert(
                name,
                Entry::Tensor(TensorInfo { dtype: Dtype::F64, shape: shape.clone(), data_offsets }),
            );
        }
        let header = serde_json::to_vec(&header).expect("plain values serialise");
        let bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
        Container::open(&bytes, "")
            .and_then(|file| file.parameters())
            .map_err(|problem| Error::invalid(format!("the set of parameters {problem}")))
    }
}

impl<T: Scalar> Parameters<T> {
    /// Writes a safetensors file in the precision of these parameters; the same parameters give the same bytes.
    pub fn write(&self, path: &Path) -> Result<()> {
        TensorFile::write(path, &[("", self)], BTreeMap::new())
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        let drift = self.drift.arrays();
        let pairs = drift.metadata().into_iter().chain([("model", drift.family().name.into())]);
        pairs.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// The metadata that holds a file's checksum. Files of other programs may have none.
const CHECKSUM: &str = "checksum";

/// The prefix of the lower ends of intervals.
pub(crate) const LOW: &str = "low.";
/// The prefix of the upper ends.
pub(crate) const HIGH: &str = "high.";

/// A safetensors file of one or more sets of parameters; a prefix of the tensors' names identifies each set.
pub(crate) struct TensorFile {
    path: PathBuf,
    bytes: Vec<u8>,
    metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// Reads a file and checks that its header describes its data.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(path).map_err(|source| Error::Io { action: "read", path: path.into(), source })?;
        let container = Container::open(&bytes, "").map_err(|problem| Error::file(path, problem))?;
        let metadata: BTreeMap<String, String> =
            container.header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        if let Some(expected) = metadata.get(CHECKSUM) {
            let found = checksum(&container, &metadata).map_err(|problem| Error::file(path, problem))?;
            if found != *expected {
                return Err(Error::file(
                    path,
                    format!(
                        "is damaged: its content has the checksum {}…, expected {}…, which it was written with",
                        hash::short(&found),
                        hash::short(expected)
                    ),
                ));
            }
        }
        Ok(TensorFile { path: path.into(), bytes, metadata })
    }

    /// A text of the header.
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// The variables' names, distinct and not empty, if the header has any for `d` of them.
    pub(crate) fn names(&self, d: usize) -> Checked<Option<Vec<String>>> {
        self.metadata("names").map(|text| names_of(text, d)).transpose()
    }

    /// The parameters whose tensors' names begin with `prefix`.
    pub(crate) fn parameters(&self, prefix: &str) -> Result<Parameters<f64>> {
        Container::open(&self.bytes, prefix)
            .and_then(|file| file.parameters())
            .map_err(|problem| Error::file(&self.path, problem))
    }

    /// Writes sets of parameters of one kind with their prefixes; the same values give the same bytes.
    pub(crate) fn write<T: Scalar>(
        path: &Path,
        parts: &[(&str, &Parameters<T>)],
        mut metadata: BTreeMap<String, String>,
    ) -> Result<()> {
        let single = T::NAME == f32::NAME;
        let (dtype, size) = if single { (Dtype::F32, 4) } else { (Dtype::F64, 8) };
        let mut tensors = Vec::new();
        for (prefix, parameters) in parts {
            parameters.check_shapes()?;
            metadata.extend(parameters.metadata());
            tensors.extend(parameters.tensors().into_iter().map(|t| (format!("{prefix}{}", t.name), t)));
        }
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        let mut sum = Checksum::of(&metadata);
        for (name, tensor) in &tensors {
            sum.tensor(name, dtype, &tensor.shape);
            for value in tensor.values {
                match single {
                    true => sum.0.update((value.to_f64() as f32).to_le_bytes()),
                    false => sum.0.update(value.to_f64().to_le_bytes()),
                }
            }
        }
        metadata.insert(CHECKSUM.into(), hash::hex(sum.0));
        let mut header = BTreeMap::from([("__metadata__", Entry::Metadata(metadata))]);
        let mut end = 0;
        for (name, tensor) in &tensors {
            let start = end;
            end += tensor.values.len() * size;
            let info = TensorInfo { dtype, shape: tensor.shape.clone(), data_offsets: (start, end) };
            header.insert(name, Entry::Tensor(info));
        }
        // The crate's own writer takes the metadata as a HashMap, whose order changes from run to run.
        let mut header = serde_json::to_vec(&header).expect("plain values serialise");
        header.resize(header.len().next_multiple_of(8), b' ');
        if header.len() > MOST_HEADER {
            return Err(Error::file(
                path,
                format!(
                    "would have a header of {} bytes, expected at most {MOST_HEADER}: names or functions are too long",
                    header.len()
                ),
            ));
        }
        output::write_atomically(path, |writer| {
            writer.write_all(&(header.len() as u64).to_le_bytes())?;
            writer.write_all(&header)?;
            for value in tensors.iter().flat_map(|(_, tensor)| tensor.values) {
                let value = value.to_f64();
                if single {
                    writer.write_all(&(value as f32).to_le_bytes())?;
                } else {
                    writer.write_all(&value.to_le_bytes())?;
                }
            }
            Ok(())
        })
    }
}

/// SHA-256 of all metadata and tensors, independent of their order in the file. It detects damaged files.
struct Checksum(Sha256);

impl Checksum {
    fn of(metadata: &BTreeMap<String, String>) -> Self {
        let mut sum = Checksum(Sha256::new());
        for (key, value) in metadata.iter().filter(|(key, _)| *key != CHECKSUM) {
            sum.text(key);
            sum.text(value);
        }
        sum
    }

    /// Lengths keep neighbours apart.
    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    /// What stands before a tensor's bytes.
    fn tensor(&mut self, name: &str, dtype: Dtype, shape: &[usize]) {
        self.text(name);
        self.text(&dtype.to_string());
        self.0.update((shape.len() as u64).to_le_bytes());
        shape.iter().for_each(|length| self.0.update((*length as u64).to_le_bytes()));
    }
}

/// One entry of the header.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Metadata(BTreeMap<String, String>),
    Tensor(TensorInfo),
}

/// The checksum of everything in the file.
fn checksum(file: &Container<'_>, metadata: &BTreeMap<String, String>) -> Checked<String> {
    let mut sum = Checksum::of(metadata);
    let mut names = file.header.offset_keys();
    names.sort();
    for name in &names {
        let info = file.header.info(name).ok_or_else(|| format!("has no tensor `{name}`"))?;
        let (start, end) = info.data_offsets;
        sum.tensor(name, info.dtype, &info.shape);
        let bytes = file.data.get(start..end).ok_or_else(|| format!("tensor `{name}` is cut short"))?;
        sum.0.update(bytes);
    }
    Ok(hash::hex(sum.0))
}
