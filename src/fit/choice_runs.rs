//! The trainings that a choice of settings has done, on disk, so that an interrupted choice does none of them again.

use super::checkpoint::difference_of_settings;
use super::{Fingerprint, PreparedFit, Settings};
use crate::files::{input, output};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A training without some interventions: which changes of means it predicts for each of them, in standard deviations; none where the model has
/// no law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChoiceRun {
    pub candidate: usize,
    pub fold: usize,
    pub changes: Vec<Option<Vec<f64>>>,
}

/// The trainings that a choice of settings has done so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChoiceRuns {
    settings: Settings,
    data: Fingerprint,
    runs: Vec<ChoiceRun>,
}

impl ChoiceRuns {
    /// None yet.
    pub fn new(problem: &PreparedFit) -> Self {
        ChoiceRuns {
            settings: problem.recipe.to_settings(),
            data: problem.fingerprint().clone(),
            runs: Vec::new(),
        }
    }

    /// The path of the file that belongs to a model file.
    pub fn path_for(model: &Path) -> PathBuf {
        model.with_extension("choice.json")
    }

    /// Reads the runs of a fit; an error if they belong to another one.
    pub fn read_for(path: &Path, problem: &PreparedFit) -> Result<Self> {
        let text = input::text(path)?;
        let found: ChoiceRuns = serde_json::from_str(&text)
            .map_err(|error| Error::file(path, format!("has other text than expected: {error}")))?;
        if let Err(difference) = Fingerprint::check(&found.data, problem.fingerprint()) {
            return Err(Error::file(path, format!("was written for other data or edges: {difference}")));
        }
        difference_of_settings(&found.settings, &problem.recipe.to_settings()).map_err(|difference| {
            Error::file(path, format!("was written with other settings: {difference}"))
        })?;
        let d = problem.data.dim();
        let changes = found.runs.iter().flat_map(|run| run.changes.iter().flatten());
        for changes in changes {
            if changes.len() != d {
                return Err(Error::file(
                    path,
                    format!("has changes of {} variables, expected {d}", changes.len()),
                ));
            }
        }
        Ok(found)
    }

    /// Writes all runs.
    pub fn write(&self, path: &Path) -> Result<()> {
        output::write_atomically(path, |writer| Ok(serde_json::to_writer(writer, self)?))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn get(&self, candidate: usize, fold: usize) -> Option<&ChoiceRun> {
        self.runs.iter().find(|run| run.candidate == candidate && run.fold == fold)
    }

    pub(super) fn add(&mut self, run: ChoiceRun) {
        self.runs.push(run);
    }

    /// Drops the runs that do not predict as many interventions as their fold has.
    pub(super) fn keep_whole(&mut self, interventions: &[usize]) {
        self.runs.retain(|run| interventions.get(run.fold) == Some(&run.changes.len()));
    }
}
