//! The state of a training on disk. It is written as a whole or not at all, so a valid checkpoint remains however the program
//! ends.

use super::{AdamRecipe, Fingerprint, PreparedFit, Settings, SolverChoice};
use crate::engine::{OptimiserKind, State};
use crate::model::{Parameters, Tensor, TensorFile};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One line of the training log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Steps taken.
    pub step: u32,
    /// The loss on that step's batch.
    pub loss: f64,
    /// The penalty.
    pub penalty: f64,
}

/// Everything that is needed to continue a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The settings of the fit.
    pub settings: Settings,
    /// What identifies the data.
    pub data: Fingerprint,
    /// The state.
    pub state: State,
    /// The log so far.
    pub log: Vec<Record>,
}

/// The prefix of the parameters; those of the moments are the optimiser's.
const PARAMETERS: &str = "parameters.";

impl Checkpoint {
    /// The path of the checkpoint that belongs to a model file.
    pub fn path_for(model: &Path) -> PathBuf {
        let mut name = model.file_stem().unwrap_or_default().to_owned();
        name.push(".checkpoint.safetensors");
        model.with_file_name(name)
    }

    /// The checkpoint of a fit in this state.
    pub fn new(problem: &PreparedFit, state: &State, log: &[Record]) -> Checkpoint {
        Checkpoint {
            settings: problem.recipe.to_settings(),
            data: problem.fingerprint().clone(),
            state: state.clone(),
            log: log.to_vec(),
        }
    }

    /// Writes the checkpoint.
    pub fn write(&self, path: &Path) -> Result<()> {
        let metadata = BTreeMap::from([
            ("steps".to_owned(), self.state.steps.to_string()),
            ("data".to_owned(), serde_json::to_string(&self.data).expect("names and numbers serialise")),
            ("settings".to_owned(), serde_json::to_string(&self.settings).expect("settings serialise")),
            ("log".to_owned(), serde_json::to_string(&self.log).expect("records serialise")),
        ]);
        let mut parts = vec![(PARAMETERS, &self.state.parameters)];
        parts.extend(optimiser_of(&self.settings).moments().iter().copied().zip(&self.state.moments));
        TensorFile::write(path, &parts, metadata)
    }

    /// Reads a checkpoint and checks that it belongs to this fit: the same data and settings.
    pub fn read_for(path: &Path, problem: &PreparedFit) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::read(path)?;
        if let Err(difference) = Fingerprint::check(&checkpoint.data, problem.fingerprint()) {
            return Err(Error::file(path, format!("was written for other data or edges: {difference}")));
        }
        let Some(AdamRecipe { steps, .. }) = problem.recipe.solver.adam() else {
            return Err(Error::file(path, "is of a fit by adam, expected one by the exact solver"));
        };
        let taken = checkpoint.state.steps;
        // The number of steps may grow as long as the penalty was not raised; all other settings must be the same.
        let grows = checkpoint.settings.steps.is_none_or(|before| taken <= before);
        let steps = if grows { Some(*steps) } else { checkpoint.settings.steps };
        let found = Settings { steps, ..checkpoint.settings.clone() };
        difference_of_settings(&found, &problem.recipe.to_settings()).map_err(|difference| {
            Error::file(path, format!("was written with other settings: {difference}"))
        })?;
        let most = if grows { problem.steps() } else { problem.most_steps() };
        if taken > most {
            return Err(Error::file(path, format!("has taken {taken} steps, expected at most {most}")));
        }
        Ok(checkpoint)
    }

    /// Reads a checkpoint.
    pub fn read(path: &Path) -> Result<Checkpoint> {
        let file = TensorFile::read(path)?;
        let missing = |key: &str| Error::file(path, format!("is no checkpoint: has no metadata {key}"));
        let text = |key: &str| file.metadata(key).ok_or_else(|| missing(key));
        fn parse<V: serde::de::DeserializeOwned>(path: &Path, key: &str, text: &str) -> Result<V> {
            serde_json::from_str(text).map_err(|e| {
                Error::file(path, format!("has the metadata {key} with other text than expected: {e}"))
            })
        }
        let part = |prefix: &str| -> Result<Parameters<f32>> {
            let parameters = file.parameters(prefix)?.cast::<f32>();
            // A finite number in the file can be out of the range of the training's f32.
            for Tensor { name, values, .. } in parameters.tensors() {
                if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                    let problem =
                        format!("has {prefix}{name}[{at}] out of the range of f32, expected a number within");
                    return Err(Error::file(path, problem));
                }
            }
            Ok(parameters)
        };
        let settings = parse(path, "settings", text("settings")?)?;
        let moments = optimiser_of(&settings).moments();
        Ok(Checkpoint {
            settings,
            data: parse(path, "data", text("data")?)?,
            state: State {
                steps: parse(path, "steps", text("steps")?)?,
                parameters: part(PARAMETERS)?,
                moments: moments.iter().map(|prefix| part(prefix)).collect::<Result<_>>()?,
            },
            log: parse(path, "log", text("log")?)?,
        })
    }
}

/// What took the steps of a fit with these settings.
fn optimiser_of(settings: &Settings) -> OptimiserKind {
    settings.solver.and_then(SolverChoice::optimiser).unwrap_or_default()
}

/// An error that names the first setting that differs.
pub(super) fn difference_of_settings(
    found: &Settings,
    expected: &Settings,
) -> std::result::Result<(), String> {
    let (found, expected) = (as_json(found), as_json(expected));
    let differs = |key: &&String| found.get(*key) != expected.get(*key);
    let Some(key) = found.keys().chain(expected.keys()).find(differs) else { return Ok(()) };
    let text = |map: &Map<String, Value>| map.get(key).map_or("nothing".into(), Value::to_string);
    Err(format!("found {key} = {}, expected {}", text(&found), text(&expected)))
}

fn as_json(settings: &Settings) -> Map<String, Value> {
    match serde_json::to_value(settings).expect("settings serialise") {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::data::Dataset;
    use crate::fit::{TrainingSchedule, Unobserved};

    #[test]
    fn numbers_that_training_cannot_have_are_refused() {
        let data =
            Dataset::from_environments(vec![Matrix::from_fn(8, 2, |i, j| (i * (j + 1)) as f64)]).unwrap();
        let settings = Settings { steps: Some(2), batch: Some(4), ..Settings::default() };
        let problem = PreparedFit::new(&data, &settings).unwrap();
        let schedule = TrainingSchedule { report_every: 1, save_every: 1 };
        let outcome = problem.train(None, None, schedule, &mut Unobserved).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.checkpoint.safetensors");
        let checkpoint = Checkpoint::new(&problem, &outcome.state, &outcome.log);
        checkpoint.write(&path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap(), checkpoint);
        // The same in f64, with a number that f32 does not have.
        let file = TensorFile::read(&path).unwrap();
        let prefixes = [PARAMETERS, "mean.", "square."];
        let mut parts = prefixes.map(|prefix| file.parameters(prefix).unwrap());
        parts[2].biases[1] = 1e39;
        let metadata = ["steps", "data", "settings", "log"]
            .map(|key| (key.to_owned(), file.metadata(key).unwrap().to_owned()));
        let named: Vec<_> = prefixes.into_iter().zip(&parts).collect();
        TensorFile::write(&path, &named, metadata.into()).unwrap();
        let sentence = Checkpoint::read(&path).unwrap_err().to_string();
        assert!(sentence.contains("biases[1] out of the range of f32"), "{sentence}");
    }
}
