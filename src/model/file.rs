//! Parameters as safetensors files.

use super::members::MEMBER;
use super::{Activation, Basis, Drift, Noise, Parameters, lists};
use crate::data::{check_names, default_names};
use crate::files::{hash, output};
use crate::{Error, Matrix, Result, Scalar};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LINEAR: &[&str] = &["weights"];
const MLP: &[&str] = &["hidden_weights", "hidden_biases", "output_weights"];
const BASIS: &[&str] = &["coefficients", "amounts"];
const SHARED: &[&str] = &["biases", "log_noise", "noise", "shift", "log_scale"];

/// Bytes of a header at most. Names, functions and logs of real models take a few megabytes, and while a header is
/// taken apart, each of its bytes may take a dozen in memory.
const MOST_HEADER: usize = 16 << 20;
/// Names in a sentence at most.
const LISTED: usize = 20;

/// What went wrong, before the path is put in front.
type Checked<T> = std::result::Result<T, String>;

impl Parameters<f64> {
    /// Reads a safetensors file of float32 or float64 tensors.
    pub fn read(path: &Path) -> Result<Parameters<f64>> {
        TensorFile::read(path)?.parameters("")
    }
}

impl<T: Scalar> Parameters<T> {
    /// Writes a safetensors file in the precision of these parameters; the same parameters give the same bytes.
    pub fn write(&self, path: &Path) -> Result<()> {
        TensorFile::write(path, &[("", self)], BTreeMap::new())
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        let pairs = match &self.drift {
            Drift::Linear { .. } => vec![],
            Drift::Mlp { activation, .. } => vec![("activation", activation.name().into())],
            Drift::Basis { basis, .. } => {
                let text = serde_json::to_string(&basis.to_written()).expect("plain values serialise");
                vec![("basis", text)]
            }
        };
        let pairs = pairs.into_iter().chain([("model", self.drift.name().into())]);
        pairs.map(|(key, value): (&str, String)| (key.to_owned(), value)).collect()
    }
}

/// The metadata that holds a file's checksum. Files of other programs may have none.
const CHECKSUM: &str = "checksum";

/// The prefix of the lower ends of intervals.
pub(crate) const LOW: &str = "low.";
/// The prefix of the upper ends.
pub(crate) const HIGH: &str = "high.";

/// A safetensors file of one or more sets of parameters, told apart by a prefix of their tensors' names.
pub(crate) struct TensorFile {
    path: PathBuf,
    bytes: Vec<u8>,
    metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// Reads a file and checks that its header describes its data.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(path).map_err(|source| Error::Io { action: "read", path: path.into(), source })?;
        let container = Container::open(&bytes, "").map_err(|problem| Error::file(path, problem))?;
        let metadata: BTreeMap<String, String> =
            container.header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        if let Some(expected) = metadata.get(CHECKSUM) {
            let found = container.checksum(&metadata).map_err(|problem| Error::file(path, problem))?;
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
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// The variables' names, distinct and not empty, if the header has any for `d` of them.
    pub fn names(&self, d: usize) -> Checked<Option<Vec<String>>> {
        self.metadata("names").map(|text| names_of(text, d)).transpose()
    }

    /// The parameters whose tensors' names begin with `prefix`.
    pub fn parameters(&self, prefix: &str) -> Result<Parameters<f64>> {
        Container::open(&self.bytes, prefix)
            .and_then(|file| file.parameters())
            .map_err(|problem| Error::file(&self.path, problem))
    }

    /// Writes sets of parameters of one kind with their prefixes; the same values give the same bytes.
    pub fn write<T: Scalar>(
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

/// SHA-256 of everything that a file says, whatever the order of its parts: what was flipped on the way is noticed.
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

/// The kinds of drift.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Linear,
    Mlp,
    Basis,
}

impl Kind {
    const ALL: &[Kind] = &[Kind::Linear, Kind::Mlp, Kind::Basis];

    fn name(self) -> &'static str {
        match self {
            Kind::Linear => "linear",
            Kind::Mlp => "mlp",
            Kind::Basis => "basis",
        }
    }

    /// The tensors that only it has.
    fn tensors(self) -> &'static [&'static str] {
        match self {
            Kind::Linear => LINEAR,
            Kind::Mlp => MLP,
            Kind::Basis => BASIS,
        }
    }
}

/// A safetensors file whose header is known to describe its data exactly.
struct Container<'a> {
    header: Metadata,
    data: &'a [u8],
    /// Of the tensors in question.
    prefix: &'a str,
}

impl<'a> Container<'a> {
    /// Takes the header apart with the crate's types but compares lengths here: the crate adds declared
    /// offsets without a check for overflow, so a hostile header could end the program.
    fn open(bytes: &'a [u8], prefix: &'a str) -> Checked<Self> {
        let not = |reason: String| format!("is not a safetensors file: {reason}");
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(not(format!("found {} bytes, expected at least 8", bytes.len())));
        };
        let length = u64::from_le_bytes(*length);
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((header, data)) = split else {
            return Err(not(format!("found {} bytes, expected a header of {length}", rest.len())));
        };
        if length > MOST_HEADER as u64 {
            return Err(not(format!("found a header of {length} bytes, expected at most {MOST_HEADER}")));
        }
        let header: Metadata = serde_json::from_slice(header)
            .map_err(|error| not(format!("found a header that does not describe tensors: {error}")))?;
        if header.data_len() != data.len() {
            let (found, expected) = (data.len(), header.data_len());
            return Err(not(format!("found {found} bytes of data, expected {expected} from the header")));
        }
        Ok(Container { header, data, prefix })
    }

    /// The name in the file.
    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn has(&self, name: &str) -> bool {
        self.header.info(&self.full(name)).is_some()
    }

    fn meta(&self, key: &str) -> Option<&str> {
        self.header.metadata().as_ref()?.get(key).map(String::as_str)
    }

    fn parameters(&self) -> Checked<Parameters<f64>> {
        self.check_names()?;
        let kind = self.kind()?;
        let activation = match self.meta("activation") {
            Some(name) => name.parse().map_err(|error: Error| error.to_string())?,
            None => Activation::Sigmoid,
        };
        let d = match *self.shape("biases")? {
            [0] => return Err("tensor `biases` has shape [0], expected at least one variable".into()),
            [d] => d,
            ref other => return Err(format!("tensor `biases` has shape {other:?}, expected [variables]")),
        };
        let biases = self.values("biases", &[d])?;
        let (drift, noise) = match kind {
            Kind::Linear => (self.linear(d)?, self.noise(d)?),
            Kind::Mlp => (self.mlp(d, activation)?, self.noise(d)?),
            Kind::Basis => self.basis(d)?,
        };
        let shift = self.per_environment("shift", d)?;
        let log_scale = self.per_environment("log_scale", d)?;
        if let (Some(shift), Some(log_scale)) = (&shift, &log_scale)
            && shift.rows() != log_scale.rows()
        {
            return Err(format!(
                "tensor `log_scale` has shape {:?}, expected {:?} like `shift`",
                [log_scale.rows(), d],
                [shift.rows(), d]
            ));
        }
        Ok(Parameters { drift, biases, noise, shift, log_scale })
    }

    /// The checksum of everything in the file.
    fn checksum(&self, metadata: &BTreeMap<String, String>) -> Checked<String> {
        let mut sum = Checksum::of(metadata);
        let mut names = self.header.offset_keys();
        names.sort();
        for name in &names {
            let info = self.header.info(name).ok_or_else(|| format!("has no tensor `{name}`"))?;
            let (start, end) = info.data_offsets;
            sum.tensor(name, info.dtype, &info.shape);
            let bytes = self.data.get(start..end).ok_or_else(|| format!("tensor `{name}` is cut short"))?;
            sum.0.update(bytes);
        }
        Ok(hash::hex(sum.0))
    }

    fn check_names(&self) -> Checked<()> {
        let known = [LINEAR, MLP, BASIS, SHARED].concat();
        let mut found = self.header.offset_keys();
        found.sort();
        // The ends of intervals and the members of an ensemble lie beside the parameters.
        let beside = |name: &&str| {
            self.prefix.is_empty() && [LOW, HIGH, MEMBER].iter().any(|other| name.starts_with(other))
        };
        let mut ours =
            found.iter().filter_map(|name| name.strip_prefix(self.prefix)).filter(|name| !beside(name));
        match ours.find(|name| !known.contains(name)) {
            Some(name) => {
                Err(format!("has the unknown tensor `{name:.100}`, expected only {}", list(&known)))
            }
            None => Ok(()),
        }
    }

    /// Which drift the tensors and the metadata speak of.
    fn kind(&self) -> Checked<Kind> {
        let named = match self.meta("model") {
            None => None,
            Some(name) => Some(*Kind::ALL.iter().find(|kind| kind.name() == name).ok_or_else(|| {
                format!("has the metadata model = {name:.100}, expected linear, mlp or basis")
            })?),
        };
        let first = |kind: Kind| kind.tensors().iter().find(|name| self.has(name));
        let found: Vec<Kind> = Kind::ALL.iter().copied().filter(|&kind| first(kind).is_some()).collect();
        let tensor = |kind: Kind| first(kind).map_or("", |name| name);
        match (named, &found[..]) {
            (_, [a, b, ..]) => Err(format!(
                "has both `{}` ({}) and `{}` ({}), expected one kind of drift",
                tensor(*a),
                a.name(),
                tensor(*b),
                b.name()
            )),
            (Some(kind), [other]) if *other != kind => Err(format!(
                "has the metadata model = {} but the tensor `{}`, expected {}",
                kind.name(),
                tensor(*other),
                list(kind.tensors())
            )),
            (Some(kind), _) | (None, &[kind]) => Ok(kind),
            (None, []) => {
                let all: Vec<String> = Kind::ALL
                    .iter()
                    .map(|kind| format!("{} ({})", list(kind.tensors()), kind.name()))
                    .collect();
                Err(format!("has no drift, expected {}", all.join(" or ")))
            }
        }
    }

    fn noise(&self, d: usize) -> Checked<Noise<f64>> {
        match (self.has("log_noise"), self.has("noise")) {
            (true, false) => Ok(Noise::Diagonal { log_noise: self.values("log_noise", &[d])? }),
            (false, true) => Ok(Noise::Full { noise: self.matrix("noise", d, d)? }),
            (true, true) => Err("has both `log_noise` and `noise`, expected one of them".into()),
            (false, false) => Err("has neither `log_noise` nor `noise`, expected one of them".into()),
        }
    }

    fn basis(&self, d: usize) -> Checked<(Drift<f64>, Noise<f64>)> {
        let text = self.meta("basis").ok_or("has no metadata basis, expected the functions of its drift")?;
        let fail = |problem: String| format!("has the metadata basis with {problem}");
        let written = serde_json::from_str(text).map_err(|e| fail(format!("text that is no basis: {e}")))?;
        // Functions are written with the variables' names.
        let names = match self.meta("names") {
            Some(names) => names_of(names, d)?,
            None => default_names(d),
        };
        let basis = Basis::from_written(written, &names).map_err(|e| fail(e.to_string()))?;
        let coefficients = self.matrix("coefficients", d, basis.features())?;
        let amounts = self.matrix("amounts", d, basis.amounts())?;
        if let Some(at) = amounts.as_slice().iter().position(|amount| *amount < 0.0) {
            let place = index(at, &[d, basis.amounts()]);
            return Err(format!("amounts[{place}] is {}, expected at least 0", amounts.as_slice()[at]));
        }
        Ok((Drift::Basis { basis: Arc::new(basis), coefficients }, Noise::Basis { amounts }))
    }

    fn linear(&self, d: usize) -> Checked<Drift<f64>> {
        Ok(Drift::Linear { weights: self.matrix("weights", d, d)? })
    }

    fn mlp(&self, d: usize, activation: Activation) -> Checked<Drift<f64>> {
        let h = match *self.shape("hidden_biases")? {
            [rows, h] if rows == d && h > 0 => h,
            ref other => {
                return Err(format!(
                    "tensor `hidden_biases` has shape {other:?}, expected [{d}, units] with at least one unit"
                ));
            }
        };
        // The file's shape is checked before d·h is multiplied, so the product cannot overflow.
        let hidden_weights = self.values("hidden_weights", &[d, h, d])?;
        Ok(Drift::Mlp {
            activation,
            hidden_weights: Matrix::from_rows(d * h, d, hidden_weights),
            hidden_biases: self.matrix("hidden_biases", d, h)?,
            output_weights: self.matrix("output_weights", d, h)?,
        })
    }

    fn per_environment(&self, name: &str, d: usize) -> Checked<Option<Matrix<f64>>> {
        if !self.has(name) {
            return Ok(None);
        }
        match *self.shape(name)? {
            [environments, columns] if environments > 0 && columns == d => {
                self.matrix(name, environments, d).map(Some)
            }
            ref other => Err(format!("tensor `{name}` has shape {other:?}, expected [environments, {d}]")),
        }
    }

    fn info(&self, name: &str) -> Checked<&TensorInfo> {
        self.header.info(&self.full(name)).ok_or_else(|| {
            let mut found = self.header.offset_keys();
            found.sort();
            format!("has no tensor `{}`, found {}", self.full(name), list(&found))
        })
    }

    fn shape(&self, name: &str) -> Checked<&[usize]> {
        Ok(&self.info(name)?.shape)
    }

    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Checked<Matrix<f64>> {
        Ok(Matrix::from_rows(rows, cols, self.values(name, &[rows, cols])?))
    }

    /// The entries of a tensor that must have this shape, all finite.
    fn values(&self, name: &str, shape: &[usize]) -> Checked<Vec<f64>> {
        let info = self.info(name)?;
        if info.shape != shape {
            return Err(format!("tensor `{name}` has shape {:?}, expected {shape:?}", info.shape));
        }
        let (start, end) = info.data_offsets;
        let bytes = self.data.get(start..end).ok_or_else(|| format!("tensor `{name}` is cut short"))?;
        let values: Vec<f64> = match info.dtype {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b).into()).collect(),
            Dtype::F64 => bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
            other => return Err(format!("tensor `{name}` has dtype {other}, expected F32 or F64")),
        };
        match values.iter().position(|value| !value.is_finite()) {
            Some(at) => {
                Err(format!("{name}[{}] is {}, expected a finite number", index(at, shape), values[at]))
            }
            None => Ok(values),
        }
    }
}

/// Position `at` of a row-major array as `2,1`.
fn index(mut at: usize, shape: &[usize]) -> String {
    let mut parts = Vec::new();
    for &length in shape.iter().rev() {
        parts.push((at % length).to_string());
        at /= length;
    }
    parts.reverse();
    parts.join(",")
}

/// The names in a header, for `d` variables.
fn names_of(text: &str, d: usize) -> Checked<Vec<String>> {
    let fail = |problem: String| format!("has the metadata names with a fault: {problem}");
    let names = lists::strings(text, d).map_err(fail)?;
    check_names(&names, d).map_err(fail)?;
    Ok(names)
}

fn list(names: &[impl AsRef<str>]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let mut listed: Vec<String> =
        names.iter().take(LISTED).map(|name| format!("`{:.100}`", name.as_ref())).collect();
    if names.len() > LISTED {
        listed.push("…".into());
    }
    listed.join(", ")
}
