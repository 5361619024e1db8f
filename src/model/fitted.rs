//! A fitted model as it is handed on: parameters with the names, units, targets and settings they belong to.

use super::file::{HIGH, LOW};
use super::{LawKind, Member, Parameters, TensorFile, lists};
use crate::data::cells::CellPreparation;
use crate::data::{Dataset, Standardization, default_names, position_of};
use crate::{Error, Matrix, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of settings at most: a few dozen words and numbers, of which each may take many times its length in memory.
const MOST_SETTINGS: usize = 1 << 20;

/// A model file: [`Parameters`] in a safetensors file, everything else in its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// In standard units if [`standardization`](Self::standardization) is there. Of an ensemble, the mean of its members'.
    pub parameters: Parameters<f64>,
    /// What the noise of a linear drift does.
    pub law: LawKind,
    /// The models whose predictions are averaged; none if this is a single model.
    pub members: Vec<Member>,
    /// The variables' names, distinct.
    pub names: Vec<String>,
    /// Whether the names were given; if not, they are x0, x1, … and the model suits data with any names.
    pub named: bool,
    /// E × d: which variables each training environment intervenes on, if known.
    pub targets: Option<Matrix<bool>>,
    /// The units that the parameters are in; none means the data's own.
    pub standardization: Option<Standardization>,
    /// Means and deviations that the fit measured the data by. The parameters are in the data's units all the same.
    pub reference: Option<Standardization>,
    /// The settings of the fit by name; empty if the parameters were not fitted.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// How sure the parameters are.
    pub intervals: Option<Box<Intervals>>,
    /// How cells became the training data, if it came from cells.
    pub cells: Option<CellPreparation>,
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
        let names = default_names(parameters.dim());
        Model {
            parameters,
            law: LawKind::default(),
            members: Vec::new(),
            names,
            named: false,
            targets: None,
            standardization: None,
            reference: None,
            settings: BTreeMap::new(),
            intervals: None,
            cells: None,
        }
    }

    /// The number of variables.
    pub fn dim(&self) -> usize {
        self.parameters.dim()
    }

    /// The means and deviations that standardise the variables, if the model has any.
    pub fn units(&self) -> Option<&Standardization> {
        self.standardization.as_ref().or(self.reference.as_ref())
    }

    /// The same model with its parameters in standard units, if it knows the data's means and deviations. Computations in
    /// standard units do not depend on the data's units. A drift that has no form in other units, such as one of given
    /// functions, stays as it is.
    pub fn in_standard_units(&self) -> Cow<'_, Model> {
        match &self.reference {
            Some(reference) if self.standardization.is_none() => {
                self.in_units_of_reference(reference).map_or(Cow::Borrowed(self), Cow::Owned)
            }
            _ => Cow::Borrowed(self),
        }
    }

    fn in_units_of_reference(&self, reference: &Standardization) -> Result<Model> {
        let inside = |parameters: &Parameters<f64>| parameters.in_units_of(&reference.inverse(), None);
        let member =
            |member: &Member| Ok(Member { parameters: inside(&member.parameters)?, ..member.clone() });
        Ok(Model {
            parameters: inside(&self.parameters)?,
            members: self.members.iter().map(member).collect::<Result<_>>()?,
            standardization: Some(reference.clone()),
            reference: None,
            intervals: None,
            ..self.clone()
        })
    }

    /// The variable with this name, or an error that lists the known ones.
    pub fn variable(&self, name: &str) -> Result<usize> {
        position_of(&self.names, name)
    }

    /// Checks that `data`, called `what` in the sentence, has the model's variables: as many, under the same names, in
    /// the same order. Parameters without names suit all data of as many variables.
    pub fn check_variables(&self, data: &Dataset, what: &str) -> Result<()> {
        let (found, expected) = (data.names(), &self.names);
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            return Err(Error::invalid(format!(
                "{what} has {found} variables, expected {expected} like the model"
            )));
        }
        // Names that were set by hand count as given.
        if !self.named && *expected == default_names(expected.len()) {
            return Ok(());
        }
        match found.iter().zip(expected).position(|(found, expected)| found != expected) {
            Some(j) => Err(Error::invalid(format!(
                "variable {j} of {what} is '{:.100}', expected '{:.100}' like the model",
                found[j], expected[j]
            ))),
            None => Ok(()),
        }
    }

    /// Reads a model file; a file of parameters alone is one too.
    pub fn read(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let file = TensorFile::read(path)?;
        let mut model = Model::new(file.parameters("")?);
        let d = model.dim();
        let fail =
            |key: &str, problem: String| Error::file(path, format!("has the metadata {key} with {problem}"));
        if let Some(names) = file.names(d).map_err(|e| Error::file(path, e))? {
            model.names = names;
            model.named = true;
        }
        let units = |key: &str| match parse::<Standardization>(&file, key).map_err(|e| fail(key, e))? {
            Some(units) if !units.is_valid_for(d) => {
                Err(fail(key, format!("other numbers than expected: {d} means and {d} scales above 0")))
            }
            units => Ok(units),
        };
        model.standardization = units("standardization")?;
        model.reference = units("reference")?;
        if let Some(name) = file.metadata("law") {
            model.law = name.parse().map_err(|e: Error| fail("law", e.to_string()))?;
        }
        model.members = Member::read_all(&file, path, &model.parameters)?;
        if model.is_of_equations() {
            model.law = LawKind::Structural;
        }
        if !model.is_diffusion() && !model.parameters.drift.is_linear() && !model.is_of_equations() {
            let kind = model.parameters.drift.name();
            return Err(Error::file(
                path,
                format!("has a law or members with the model {kind}, expected a linear one"),
            ));
        }
        if let Some(text) = file.metadata("targets") {
            let environments = model.parameters.environments();
            let targets = lists::targets(text, d, environments).map_err(|e| fail("targets", e))?;
            model.targets = Some(targets);
        }
        if let Some(text) = file.metadata("settings").filter(|text| text.len() > MOST_SETTINGS) {
            return Err(fail("settings", format!("{} bytes, expected at most {MOST_SETTINGS}", text.len())));
        }
        model.settings = parse(&file, "settings").map_err(|e| fail("settings", e))?.unwrap_or_default();
        model.cells = parse(&file, "cells").map_err(|e| fail("cells", e))?;
        if model
            .cells
            .as_ref()
            .and_then(|cells| cells.depth)
            .is_some_and(|depth| depth.is_nan() || depth <= 0.0)
        {
            return Err(fail("cells", "another depth than expected: a number above 0".into()));
        }
        if let Some(level) = parse::<f64>(&file, "intervals").map_err(|e| fail("intervals", e))? {
            if !(level > 0.0 && level < 1.0) {
                return Err(fail(
                    "intervals",
                    format!("the level {level}, expected a number between 0 and 1"),
                ));
            }
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

    /// Writes the model file; the same model gives the same bytes.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
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
        if self.law != LawKind::default() {
            metadata.insert("law".into(), self.law.name().into());
        }
        if let Some(cells) = &self.cells {
            metadata.insert("cells".into(), json(cells));
        }
        let prefixes: Vec<String> = (0..self.members.len()).map(Member::prefix).collect();
        let mut parts = vec![("", &self.parameters)];
        if !self.members.is_empty() {
            metadata.insert("members".into(), Member::header(&self.members));
            parts.extend(
                prefixes.iter().zip(&self.members).map(|(prefix, m)| (prefix.as_str(), &m.parameters)),
            );
        }
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
            drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.3, 0.1 + 0.2, -1.0])),
            biases: vec![0.0, 1.0 / 3.0],
            noise: Noise::Diagonal { log_noise: vec![-2.0, -1.5] },
            shift: Some(Matrix::full(3, 2, 0.25)),
            log_scale: None,
        };
        Model {
            names: vec!["gene a".into(), "γ".into()],
            named: true,
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
            cells: Some(CellPreparation {
                perturbation: Some("guide".into()),
                depth: Some(5123.5),
                ..CellPreparation::default()
            }),
            ..Model::new(parameters)
        }
    }

    #[test]
    fn a_model_comes_back_and_is_also_a_file_of_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        model().save(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), model());
        assert_eq!(Parameters::read(&path).unwrap(), model().parameters);
        let first = std::fs::read(&path).unwrap();
        model().save(&path).unwrap();
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
            ("names", "[\"a\"]", "found 1 names, expected 2"),
            ("names", "{", "no valid JSON"),
            ("names", "[\"a\",\"a\"]", "the name `a` appears twice"),
            ("names", "[\"a\",\"\"]", "the name of variable 1 is empty"),
            ("standardization", "{\"mean\":[0,0],\"scale\":[1,0]}", "2 scales above 0"),
            ("reference", "{\"mean\":[0],\"scale\":[1,1]}", "2 scales above 0"),
            ("targets", "[[],[],[2]]", "numbers below 2"),
            ("targets", "[[],[]]", "2 environments, expected 3"),
            ("targets", &format!("[{}[]]", "[],".repeat(100_000)), "more than 3 environments"),
            ("settings", &format!("[{}0]", "0,".repeat(1 << 20)), "expected at most 1048576"),
            ("intervals", "1.5", "the level 1.5"),
            ("cells", "{\"depth\":-3}", "a number above 0"),
            ("cells", "{\"deep\":3}", "no valid JSON"),
        ] {
            let metadata = BTreeMap::from([(key.to_owned(), text.to_owned())]);
            TensorFile::write(&path, &[("", &model().parameters)], metadata).unwrap();
            let sentence = Model::read(&path).unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
    }
}
