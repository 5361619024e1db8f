//! The tensors of a safetensors file, checked one by one.

use super::family::{FAMILIES, Family};
use super::file::{HIGH, LOW, MOST_HEADER};
use super::members::MEMBER;
use super::{Noise, Parameters, lists};
use crate::Matrix;
use crate::data::{check_names, default_names};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

/// Tensors that files of every family may have; which noise there is depends on the family.
const SHARED: &[&str] = &["biases", "log_noise", "noise", "shift", "log_scale"];
/// Names in a sentence at most.
const LISTED: usize = 20;

/// What went wrong, before the path is put in front.
pub(crate) type Checked<T> = std::result::Result<T, String>;

/// A safetensors file whose header is known to describe its data exactly.
pub(crate) struct Container<'a> {
    pub(super) header: Metadata,
    pub(super) data: &'a [u8],
    /// Of the tensors in question.
    prefix: &'a str,
}

impl<'a> Container<'a> {
    /// Takes the header apart with the crate's types but compares lengths here: the crate adds declared
    /// offsets without a check for overflow, so a hostile header could end the program.
    pub(super) fn open(bytes: &'a [u8], prefix: &'a str) -> Checked<Self> {
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

    pub(crate) fn meta(&self, key: &str) -> Option<&str> {
        self.header.metadata().as_ref()?.get(key).map(String::as_str)
    }

    pub(super) fn parameters(&self) -> Checked<Parameters<f64>> {
        self.check_names()?;
        let family = self.family()?;
        let d = match *self.shape("biases")? {
            [0] => return Err("tensor `biases` has shape [0], expected at least one variable".into()),
            [d] => d,
            ref other => return Err(format!("tensor `biases` has shape {other:?}, expected [variables]")),
        };
        let biases = self.values("biases", &[d])?;
        let (drift, noise) = (family.read)(self, d)?;
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

    fn check_names(&self) -> Checked<()> {
        let known: Vec<&str> =
            FAMILIES.iter().flat_map(|family| family.tensors).chain(SHARED).copied().collect();
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

    /// The family that the tensors and the metadata name.
    fn family(&self) -> Checked<&'static Family> {
        let named = match self.meta("model") {
            None => None,
            Some(name) => Some(*FAMILIES.iter().find(|family| family.name == name).ok_or_else(|| {
                format!("has the metadata model = {name:.100}, expected {}", family_names())
            })?),
        };
        let first = |family: &Family| family.tensors.iter().find(|name| self.has(name)).copied();
        let found: Vec<(&'static Family, &str)> =
            FAMILIES.iter().filter_map(|&family| Some((family, first(family)?))).collect();
        match (named, &found[..]) {
            (_, [(a, of_a), (b, of_b), ..]) => Err(format!(
                "has both `{of_a}` ({}) and `{of_b}` ({}), expected one kind of drift",
                a.name, b.name
            )),
            (Some(family), [(other, tensor)]) if other.name != family.name => Err(format!(
                "has the metadata model = {} but the tensor `{tensor}`, expected {}",
                family.name,
                list(family.tensors)
            )),
            (Some(family), _) | (None, &[(family, _)]) => Ok(family),
            (None, []) => {
                let all: Vec<String> = FAMILIES
                    .iter()
                    .map(|family| format!("{} ({})", list(family.tensors), family.name))
                    .collect();
                Err(format!("has no drift, expected {}", all.join(" or ")))
            }
        }
    }

    /// The noise that does not depend on the state.
    pub(crate) fn noise(&self, d: usize) -> Checked<Noise<f64>> {
        match (self.has("log_noise"), self.has("noise")) {
            (true, false) => Ok(Noise::Diagonal { log_noise: self.values("log_noise", &[d])? }),
            (false, true) => Ok(Noise::Full { noise: self.matrix("noise", d, d)? }),
            (true, true) => Err("has both `log_noise` and `noise`, expected one of them".into()),
            (false, false) => Err("has neither `log_noise` nor `noise`, expected one of them".into()),
        }
    }

    /// The variables' names: those of the header, or x0, x1, ….
    pub(crate) fn names(&self, d: usize) -> Checked<Vec<String>> {
        match self.meta("names") {
            Some(names) => names_of(names, d),
            None => Ok(default_names(d)),
        }
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

    pub(crate) fn shape(&self, name: &str) -> Checked<&[usize]> {
        Ok(&self.info(name)?.shape)
    }

    pub(crate) fn matrix(&self, name: &str, rows: usize, cols: usize) -> Checked<Matrix<f64>> {
        Ok(Matrix::from_rows(rows, cols, self.values(name, &[rows, cols])?))
    }

    /// The entries of a tensor that must have this shape, all finite.
    pub(crate) fn values(&self, name: &str, shape: &[usize]) -> Checked<Vec<f64>> {
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

/// The names of all families as `linear, mlp or basis`.
fn family_names() -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    match names.split_last() {
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
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
pub(super) fn names_of(text: &str, d: usize) -> Checked<Vec<String>> {
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
