//! A fitted model as it is handed on: parameters with the names, units, targets and settings they belong to.

use super::file::{HIGH, LOW};
use super::{Parameters, TensorFile};
use crate::data::Standardization;
use crate::{Error, Matrix, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// A model file: [`Parameters`] in a safetensors file, everything else in its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// In standard units if [`standardization`](Self::standardization) is there.
    pub parameters: Parameters<f64>,
    /// The variables' names, distinct.
    pub names: Vec<String>,
    /// E × d: which variables each training environment intervenes on, if known.
    pub targets: Option<Matrix<bool>>,
    /// The units that the parameters are in; none means the data's own.
    pub standardization: Option<Standardization>,
    /// Means and deviations that the fit measured the data by. The parameters are in the data's units all the same.
    pub reference: Option<Standardization>,
    /// The settings of the fit by name; empty for parameters that nobody fitted.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// How sure the parameters are.
    pub intervals: Option<Box<Intervals>>,
}

/// An interval for every parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// The share of resamples whose parameters lie within.
    pub level: f64,
    /// The lower ends.
    pub low: Parameters<f64>,
    /// The upper ends.
    pub high: Parameters<f64>,
}

impl Model {
    /// A model of nothing but parameters: variables are called x0, x1, …
    pub fn new(parameters: Parameters<f64>) -> Self {
        let names = (0..parameters.dim()).map(|j| format!("x{j}")).collect();
        Model {
            parameters,
            names,
            targets: None,
            standardization: None,
            reference: None,
            settings: BTreeMap::new(),
            intervals: None,
        }
    }

    /// The number of variables.
    pub fn dim(&self) -> usize {
        self.parameters.dim()
    }

    /// What lengths are measured by: one number is as far in one variable as in another. None if nobody knows.
    pub fn units(&self) -> Option<&Standardization> {
        self.standardization.as_ref().or(self.reference.as_ref())
    }

    /// The same model with its parameters in standard units, where one is known by which to measure: what is computed there
    /// is the same whatever the data's units. Functions of the data's units stay what they are.
    pub fn in_standard_units(&self) -> Cow<'_, Model> {
        match &self.reference {
            Some(reference) if self.standardization.is_none() && !self.parameters.is_basis() => {
                Cow::Owned(Model {
                    parameters: self.parameters.in_units_of(&reference.inverse(), None),
                    standardization: Some(reference.clone()),
                    reference: None,
                    intervals: None,
                    ..self.clone()
                })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The variable with this name, or an error that lists the known ones.
    pub fn variable(&self, name: &str) -> Result<usize> {
        self.names.iter().position(|known| known == name).ok_or_else(|| {
            let mut known = self.names.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
            if self.names.len() > 20 {
                known.push_str(", …");
            }
            Error::invalid(format!("unknown variable '{name}', expected one of {known}"))
        })
    }

    /// Reads a model file; a file of parameters alone is one too.
    pub fn read(path: &Path) -> Result<Model> {
        let file = TensorFile::read(path)?;
        let mut model = Model::new(file.parameters("")?);
        let d = model.dim();
        let fail =
            |key: &str, problem: String| Error::file(path, format!("has the metadata {key} with {problem}"));
        if let Some(names) = parse::<Vec<String>>(&file, "names").map_err(|e| fail("names", e))? {
            if names.len() != d {
                return Err(fail("names", format!("{} names, expected {d}", names.len())));
            }
            model.names = names;
        }
        let units = |key: &str| match parse::<Standardization>(&file, key).map_err(|e| fail(key, e))? {
            Some(units) if !units.is_valid_for(d) => {
                Err(fail(key, format!("other numbers than expected: {d} means and {d} scales above 0")))
            }
            units => Ok(units),
        };
        model.standardization = units("standardization")?;
        model.reference = units("reference")?;
        if let Some(rows) = parse::<Vec<Vec<usize>>>(&file, "targets").map_err(|e| fail("targets", e))? {
            if rows.iter().flatten().any(|j| *j >= d) {
                return Err(fail("targets", format!("a variable out of range, expected numbers below {d}")));
            }
            model.targets = Some(Matrix::from_fn(rows.len(), d, |e, j| rows[e].contains(&j)));
        }
        model.settings = parse(&file, "settings").map_err(|e| fail("settings", e))?.unwrap_or_default();
        if let Some(level) = parse::<f64>(&file, "intervals").map_err(|e| fail("intervals", e))? {
            let (low, high) = (file.parameters(LOW)?, file.parameters(HIGH)?);
            let shape = |p: &Parameters<f64>| {
                p.tensors().iter().map(|t| (t.name, t.values.len())).collect::<Vec<_>>()
            };
            if shape(&low) != shape(&model.parameters) || shape(&high) != shape(&model.parameters) {
                return Err(fail("intervals", "ends of another shape than the parameters".into()));
            }
            model.intervals = Some(Box::new(Intervals { level, low, high }));
        }
        Ok(model)
    }

    /// Writes the model; the same model gives the same bytes.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut metadata = BTreeMap::from([("names".to_owned(), json(&self.names))]);
        if let Some(units) = &self.standardization {
            metadata.insert("standardization".into(), json(units));
        }
        if let Some(units) = &self.reference {
            metadata.insert("reference".into(), json(units));
        }
        if let Some(targets) = &self.targets {
            let rows: Vec<Vec<usize>> = (0..targets.rows())
                .map(|e| (0..targets.cols()).filter(|&j| targets[(e, j)]).collect())
                .collect();
            metadata.insert("targets".into(), json(&rows));
        }
        if !self.settings.is_empty() {
            metadata.insert("settings".into(), json(&self.settings));
        }
        let mut parts = vec![("", &self.parameters)];
        if let Some(intervals) = &self.intervals {
            metadata.insert("intervals".into(), json(&intervals.level));
            parts.extend([(LOW, &intervals.low), (HIGH, &intervals.high)]);
        }
        TensorFile::write(path, &parts, metadata)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain values serialise")
}

fn parse<V: DeserializeOwned>(file: &TensorFile, key: &str) -> std::result::Result<Option<V>, String> {
    match file.metadata(key) {
        None => Ok(None),
        Some(text) => {
            serde_json::from_str(text).map(Some).map_err(|e| format!("text that is no valid JSON: {e}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Drift, Noise};

    fn model() -> Model {
        let parameters = Parameters {
            drift: Drift::Linear { weights: Matrix::from_rows(2, 2, vec![-1.0, 0.3, 0.1 + 0.2, -1.0]) },
            biases: vec![0.0, 1.0 / 3.0],
            noise: Noise::Diagonal { log_noise: vec![-2.0, -1.5] },
            shift: Some(Matrix::full(3, 2, 0.25)),
            log_scale: None,
        };
        Model {
            names: vec!["gene a".into(), "γ".into()],
            targets: Some(Matrix::from_fn(3, 2, |e, j| e > 0 && j == e - 1)),
            standardization: Some(Standardization { mean: vec![0.1, -7.0], scale: vec![1.0 / 3.0, 2.0] }),
            reference: Some(Standardization { mean: vec![0.2, -8.0], scale: vec![2.0 / 3.0, 4.0] }),
            settings: BTreeMap::from([
                ("steps".into(), 20_000.into()),
                ("kernel".into(), "tilted-rbf".into()),
            ]),
            intervals: Some(Box::new(Intervals {
                level: 0.95,
                low: parameters.clone(),
                high: parameters.clone(),
            })),
            ..Model::new(parameters)
        }
    }

    #[test]
    fn a_model_comes_back_and_is_also_a_file_of_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        model().write(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), model());
        assert_eq!(Parameters::read(&path).unwrap(), model().parameters);
        let first = std::fs::read(&path).unwrap();
        model().write(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first);
        // The other way round: parameters alone are a model.
        model().parameters.write(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), Model::new(model().parameters));
    }

    #[test]
    fn variables_have_names_and_wrong_metadata_is_refused() {
        assert_eq!(model().variable("γ").unwrap(), 1);
        let sentence = model().variable("x").unwrap_err().to_string();
        assert_eq!(sentence, "unknown variable 'x', expected one of gene a, γ");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        for (key, text, piece) in [
            ("names", "[\"a\"]", "1 names, expected 2"),
            ("names", "{", "no valid JSON"),
            ("standardization", "{\"mean\":[0,0],\"scale\":[1,0]}", "2 scales above 0"),
            ("reference", "{\"mean\":[0],\"scale\":[1,1]}", "2 scales above 0"),
            ("targets", "[[2]]", "numbers below 2"),
        ] {
            let metadata = BTreeMap::from([(key.to_owned(), text.to_owned())]);
            TensorFile::write(&path, &[("", &model().parameters)], metadata).unwrap();
            let sentence = Model::read(&path).unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
    }
}
