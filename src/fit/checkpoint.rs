//! A training's state on disk: written whole or not at all, so that whatever ends the program leaves one that serves.

use super::Problem;
use super::settings::Settings;
use crate::engine::State;
use crate::model::TensorFile;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Steps taken.
    pub step: u32,
    /// The loss on that step's batch.
    pub loss: f64,
    /// The penalty.
    pub penalty: f64,
}

/// Everything that `--resume` needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The settings of the fit.
    pub settings: Settings,
    /// What identifies the data: rows, variables, environments and a sum of all samples.
    pub data: String,
    /// The state.
    pub state: State,
    /// The log so far.
    pub log: Vec<Record>,
}

const PARTS: [&str; 3] = ["parameters.", "mean.", "square."];

impl Checkpoint {
    /// Where the checkpoint of a model file lies.
    pub fn path_for(model: &Path) -> PathBuf {
        let mut name = model.file_stem().unwrap_or_default().to_owned();
        name.push(".checkpoint.safetensors");
        model.with_file_name(name)
    }

    /// Of a problem that has got so far.
    pub fn new(problem: &Problem, state: &State, log: &[Record]) -> Checkpoint {
        Checkpoint {
            settings: problem.settings.clone(),
            data: problem.data_mark(),
            state: state.clone(),
            log: log.to_vec(),
        }
    }

    /// Writes the checkpoint.
    pub fn write(&self, path: &Path) -> Result<()> {
        let metadata = BTreeMap::from([
            ("steps".to_owned(), self.state.steps.to_string()),
            ("data".to_owned(), self.data.clone()),
            ("settings".to_owned(), serde_json::to_string(&self.settings).expect("settings serialise")),
            ("log".to_owned(), serde_json::to_string(&self.log).expect("records serialise")),
        ]);
        let State { parameters, mean, square, .. } = &self.state;
        let parts: Vec<_> = PARTS.into_iter().zip([parameters, mean, square]).collect();
        TensorFile::write(path, &parts, metadata)
    }

    /// Reads the checkpoint of a problem: of its data and its settings.
    pub fn of(path: &Path, problem: &Problem) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::read(path)?;
        let expected = problem.data_mark();
        if checkpoint.data != expected {
            let found = checkpoint.data;
            return Err(Error::file(path, format!("is of other data: found {found}, expected {expected}")));
        }
        // More steps may be asked for; everything else must be as it was.
        let same = Settings { steps: problem.settings.steps, ..checkpoint.settings.clone() };
        if same != problem.settings {
            let (found, expected) = (as_json(&same), as_json(&problem.settings));
            let other = expected
                .as_object()
                .into_iter()
                .flatten()
                .find(|(key, value)| found[key.as_str()] != **value);
            let (key, value) =
                other.map_or(("settings", expected.clone()), |(key, value)| (key, value.clone()));
            return Err(Error::file(
                path,
                format!("is of other settings: found {key} = {}, expected {value}", found[key]),
            ));
        }
        if checkpoint.state.steps > problem.settings.steps {
            let (found, expected) = (checkpoint.state.steps, problem.settings.steps);
            return Err(Error::file(path, format!("has taken {found} steps, expected at most {expected}")));
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
        let part = |prefix: &str| file.parameters(prefix).map(|parameters| parameters.cast());
        Ok(Checkpoint {
            settings: parse(path, "settings", text("settings")?)?,
            data: text("data")?.to_owned(),
            state: State {
                steps: parse(path, "steps", text("steps")?)?,
                parameters: part(PARTS[0])?,
                mean: part(PARTS[1])?,
                square: part(PARTS[2])?,
            },
            log: parse(path, "log", text("log")?)?,
        })
    }
}
fn as_json(settings: &Settings) -> serde_json::Value {
    serde_json::to_value(settings).expect("settings serialise")
}
