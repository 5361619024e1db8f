//! The files in which an unfinished training is kept, beside its model's.

use super::{Checkpoint, ChoiceRuns, PreparedFit};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Where an unfinished training is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFiles {
    /// The state of the training.
    pub checkpoint: PathBuf,
    /// The trainings of its choice of settings.
    pub choice: PathBuf,
}

/// What happens to an unfinished training that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It is an error.
    Refuse,
    /// It goes on.
    Resume,
    /// It is replaced.
    Replace,
}

impl KeptFiles {
    /// The files beside a model file.
    pub fn beside(model: &Path) -> KeptFiles {
        KeptFiles { checkpoint: Checkpoint::path_for(model), choice: ChoiceRuns::path_for(model) }
    }

    /// Whether training goes on from the checkpoint; an unfinished fit is not overwritten by accident. `chooses` is whether the fit
    /// chooses settings, which it may have done in part.
    pub fn goes_on(&self, chooses: bool, unfinished: Unfinished) -> Result<bool> {
        let (trained, chosen) = (self.checkpoint.exists(), chooses && self.choice.exists());
        match unfinished {
            Unfinished::Resume if trained || chosen => return Ok(trained),
            Unfinished::Resume => {
                let problem = "does not exist, expected the checkpoint of an unfinished fit to resume";
                return Err(Error::file(&self.checkpoint, problem));
            }
            Unfinished::Refuse if trained || chosen => {}
            _ => return Ok(false),
        }
        let (path, found) = match trained {
            false => (&self.choice, "holds a fit that stopped while it chose settings".into()),
            true => match Checkpoint::read(&self.checkpoint) {
                Ok(checkpoint) => {
                    (&self.checkpoint, format!("holds a fit that stopped at step {}", checkpoint.state.steps))
                }
                Err(_) => (&self.checkpoint, "is there already".into()),
            },
        };
        Err(Error::file(path, format!("{found}, expected no checkpoint: resume the fit or restart it")))
    }

    /// The trainings of the choice to go on from.
    pub fn runs(&self, fit: &PreparedFit, unfinished: Unfinished) -> Result<ChoiceRuns> {
        match unfinished == Unfinished::Resume && self.choice.exists() {
            true => ChoiceRuns::read_for(&self.choice, fit),
            false => Ok(ChoiceRuns::new(fit)),
        }
    }

    /// Removes what a complete model holds; a missing file is no harm.
    pub fn remove(&self) {
        [&self.checkpoint, &self.choice].into_iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}
