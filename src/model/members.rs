//! What a linear model's noise does, and models that are several at once.

use super::file::TensorFile;
use super::{Drift, Model, Parameters};
use crate::named::named;
use crate::{Error, Matrix, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The most members that a file may have.
const MOST_MEMBERS: usize = 32;
/// How far from 1 the weights of all members may add up.
const ROUNDING: f64 = 1e-6;

/// What the noise of a linear drift does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LawKind {
    /// It fluctuates: dX = (W X + b) dt + σ dB, and the law is where that settles.
    #[default]
    Diffusion,
    /// It stays, another for every row: x = −W⁻¹ (b + σ ε), linear structural equations with feedback.
    Structural,
}

named!(LawKind, "law", { Diffusion => "diffusion", Structural => "structural" });

/// One of the models that an ensemble averages.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its share in what is predicted.
    pub weight: f64,
    /// What its noise does.
    pub law: LawKind,
    /// In the units of the ensemble; linear, with as many environments.
    pub parameters: Parameters<f64>,
}

/// What a file's header says of a member.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    weight: f64,
    #[serde(with = "crate::named::by_name")]
    law: LawKind,
}

impl Model {
    /// Whether this is a single diffusion, which can be simulated and has the losses of this crate.
    pub fn is_diffusion(&self) -> bool {
        self.members.is_empty() && self.law == LawKind::Diffusion && !self.is_of_equations()
    }

    /// Whether this consists of structural equations by networks.
    pub(crate) fn is_of_equations(&self) -> bool {
        matches!(self.parameters.drift, Drift::Equations(_))
    }

    /// Why the model has no loss, if it has none.
    pub fn check_has_loss(&self) -> Result<()> {
        match (self.members.len(), self.law) {
            (0, LawKind::Diffusion) if !self.is_of_equations() => Ok(()),
            (0, _) => Err(Error::invalid(
                "the model consists of structural equations, which have no loss over pairs, expected a diffusion",
            )),
            (count, _) => Err(Error::invalid(format!(
                "the model averages {count} fits, expected a single one: an average has no loss over pairs"
            ))),
        }
    }

    /// The models whose predictions are averaged, with their shares; of a single model, itself.
    pub(crate) fn parts(&self) -> Vec<(f64, LawKind, &Parameters<f64>)> {
        match self.members.is_empty() {
            true => vec![(1.0, self.law, &self.parameters)],
            false => self.members.iter().map(|m| (m.weight, m.law, &m.parameters)).collect(),
        }
    }

    /// A member as a model of its own.
    pub fn member(&self, k: usize) -> Model {
        let Member { law, parameters, .. } = &self.members[k];
        Model {
            parameters: parameters.clone(),
            law: *law,
            members: Vec::new(),
            intervals: None,
            names: self.names.clone(),
            targets: self.targets.clone(),
            standardization: self.standardization.clone(),
            reference: self.reference.clone(),
            settings: self.settings.clone(),
            named: self.named,
            cells: self.cells.clone(),
        }
    }

    /// In how many members the effect of `source` on `target` is not 0.
    pub fn members_with(&self, source: usize, target: usize) -> usize {
        self.members
            .iter()
            .filter(|member| {
                member.parameters.drift.linear_weights().is_ok_and(|weights| weights[(target, source)] != 0.0)
            })
            .count()
    }
}

impl Member {
    /// The mean of members' parameters by their weights; noises are averaged as variances.
    pub fn average(members: &[Member]) -> Parameters<f64> {
        let variance = |log: f64| (2.0 * log).exp();
        let log = |variance: f64| 0.5 * variance.ln();
        let mut mean = members[0].parameters.zeros_like();
        for member in members {
            let from = member.parameters.tensors();
            for ((name, into), from) in mean.tensors_mut().into_iter().zip(from) {
                let log_noise = name == "log_noise";
                for (into, value) in into.iter_mut().zip(from.values) {
                    *into += member.weight * if log_noise { variance(*value) } else { *value };
                }
            }
        }
        for (name, values) in mean.tensors_mut() {
            if name == "log_noise" {
                values.iter_mut().for_each(|value| *value = log(*value));
            }
        }
        mean
    }

    /// What the header of a file says of members.
    pub(super) fn header(members: &[Member]) -> String {
        let entries: Vec<Entry> = members.iter().map(|m| Entry { weight: m.weight, law: m.law }).collect();
        serde_json::to_string(&entries).expect("plain values serialise")
    }

    /// The prefix of a member's tensors.
    pub(super) fn prefix(k: usize) -> String {
        format!("{MEMBER}{k}.")
    }

    /// The members of a file.
    pub(super) fn read_all(file: &TensorFile, path: &Path, average: &Parameters<f64>) -> Result<Vec<Member>> {
        let Some(text) = file.metadata("members") else { return Ok(Vec::new()) };
        let fail = |problem: String| Error::file(path, format!("has the metadata members with {problem}"));
        // An entry takes a few words, so a longer text cannot be valid.
        if text.len() > 128 * MOST_MEMBERS {
            return Err(fail(format!("{} bytes, expected at most {}", text.len(), 128 * MOST_MEMBERS)));
        }
        let entries: Vec<Entry> =
            serde_json::from_str(text).map_err(|e| fail(format!("text that is no valid JSON: {e}")))?;
        if !(2..=MOST_MEMBERS).contains(&entries.len()) {
            return Err(fail(format!("{} members, expected 2 to {MOST_MEMBERS}", entries.len())));
        }
        let all: f64 = entries.iter().map(|entry| entry.weight).sum();
        if entries.iter().any(|entry| entry.weight.is_nan() || entry.weight <= 0.0)
            || (all - 1.0).abs() > ROUNDING
        {
            return Err(fail(format!(
                "weights that add up to {all}, expected numbers above 0 that add up to 1"
            )));
        }
        let mut members = Vec::new();
        for (k, Entry { weight, law }) in entries.into_iter().enumerate() {
            let parameters = file.parameters(&Member::prefix(k))?;
            let same_form = parameters.dim() == average.dim()
                && parameters.shift.as_ref().map(Matrix::rows) == average.shift.as_ref().map(Matrix::rows)
                && parameters.log_scale.as_ref().map(Matrix::rows)
                    == average.log_scale.as_ref().map(Matrix::rows);
            if !same_form || !parameters.drift.is_linear() {
                return Err(fail(format!(
                    "member {k} in another form than the average, expected a linear drift with as many variables and environments"
                )));
            }
            members.push(Member { weight, law, parameters });
        }
        Ok(members)
    }
}

/// What the names of members' tensors begin with.
pub(super) const MEMBER: &str = "member";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Drift, Noise};
    use std::collections::BTreeMap;

    fn parameters(effect: f64, log_noise: f64) -> Parameters<f64> {
        Parameters {
            drift: Drift::linear(Matrix::from_rows(2, 2, vec![-1.0, 0.0, effect, -1.0])),
            biases: vec![0.5, effect],
            noise: Noise::Diagonal { log_noise: vec![0.0, log_noise] },
            shift: Some(Matrix::full(2, 2, effect)),
            log_scale: None,
        }
    }

    fn ensemble() -> Model {
        let members = vec![
            Member { weight: 0.25, law: LawKind::Diffusion, parameters: parameters(0.0, 0.0) },
            Member { weight: 0.75, law: LawKind::Structural, parameters: parameters(0.4, 1.0) },
        ];
        Model { members: members.clone(), ..Model::new(Member::average(&members)) }
    }

    #[test]
    fn the_average_is_by_weights_and_of_variances() {
        let average = ensemble().parameters;
        let weights = average.drift.linear_weights().unwrap();
        assert!((weights[(1, 0)] - 0.3).abs() < 1e-15 && weights[(0, 0)] == -1.0);
        let Noise::Diagonal { log_noise } = &average.noise else { unreachable!() };
        assert!(((2.0 * log_noise[1]).exp() - (0.25 + 0.75 * 2f64.exp())).abs() < 1e-12);
        assert_eq!((ensemble().members_with(0, 1), ensemble().members_with(1, 0)), (1, 0));
    }

    #[test]
    fn an_ensemble_and_a_law_come_back_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let model = Model { named: true, ..ensemble() };
        model.save(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), model);
        // What knows nothing of ensembles reads their average.
        assert_eq!(Parameters::read(&path).unwrap(), model.parameters);
        let structural = Model { law: LawKind::Structural, named: true, ..Model::new(parameters(0.2, 0.0)) };
        structural.save(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), structural);
        assert!(structural.check_has_loss().is_err() && model.check_has_loss().is_err());
    }

    #[test]
    fn wrong_members_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let model = ensemble();
        let (first, second) = (&model.members[0].parameters, &model.members[1].parameters);
        let one = "{\"weight\":0.5,\"law\":\"diffusion\"}";
        for (text, piece) in [
            (format!("[{one}]"), "1 members, expected 2 to 32"),
            (format!("[{one},{}]", one.replace("0.5", "-0.5")), "add up to 0"),
            (format!("[{one},{}]", one.replace("0.5", "0.7")), "add up to 1.2"),
            (format!("[{one},{}]", one.replace("diffusion", "fluid")), "unknown law 'fluid'"),
            (format!("[{one},{one},{one}]").replace("0.5", "0.3333333333"), "`member2."),
            (format!("[{}0]", "0,".repeat(4000)), "expected at most 4096"),
        ] {
            let metadata = BTreeMap::from([("members".to_owned(), text)]);
            let parts = [("", &model.parameters), ("member0.", first), ("member1.", second)];
            TensorFile::write(&path, &parts, metadata).unwrap();
            let sentence = Model::read(&path).unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
    }
}
