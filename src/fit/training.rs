//! Training by Adam: the steps of a prepared fit, on any device, with somebody to watch them.

use super::{AdamRecipe, Checkpoint, Knowledge, PreparedFit, Record, start};
use crate::engine::cpu::CpuTraining;
use crate::engine::gpu::GpuEngine;
use crate::engine::{State, Training};
use crate::{Error, Result};

/// Hears how a training goes, keeps its checkpoints, and may end it early.
pub trait TrainingObserver {
    /// Is called every [`TrainingSchedule::report_every`] steps, and after the last.
    fn report(&mut self, record: &Record);

    /// Saves the state: every [`TrainingSchedule::save_every`] steps, when the training ends early, and after its last step.
    fn save(&mut self, state: &State, log: &[Record]) -> Result<()>;

    /// Whether the training should end early.
    fn should_stop(&self) -> bool;
}

/// Reports nothing and saves nothing.
pub struct Unobserved;

impl TrainingObserver for Unobserved {
    fn report(&mut self, _: &Record) {}

    fn save(&mut self, _: &State, _: &[Record]) -> Result<()> {
        Ok(())
    }

    fn should_stop(&self) -> bool {
        false
    }
}

/// How often a training reports and saves.
#[derive(Clone, Copy, Debug)]
pub struct TrainingSchedule {
    /// Steps between reports.
    pub report_every: u32,
    /// Steps between checkpoints.
    pub save_every: u32,
}

/// How a training ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingOutcome {
    /// The last state.
    pub state: State,
    /// The log.
    pub log: Vec<Record>,
    /// Whether all steps were taken.
    pub complete: bool,
}

impl PreparedFit {
    /// Trains the model, on `gpu` or else on the CPU, from the checkpoint `from` or else from the start.
    ///
    /// A NaN ends the training with an error; the observer has then saved the last good state.
    pub fn train(
        &self,
        gpu: Option<&GpuEngine>,
        from: Option<&Checkpoint>,
        schedule: TrainingSchedule,
        observer: &mut dyn TrainingObserver,
    ) -> Result<TrainingOutcome> {
        let Some(AdamRecipe { steps, .. }) = self.recipe.solver.adam() else {
            return Err(Error::invalid("the solver is exact, expected adam to take steps with"));
        };
        let mut training = self.training(gpu)?;
        let (mut log, mut step) = (Vec::new(), 0);
        if let Some(from) = from {
            training.restore(&from.state)?;
            (log, step) = (from.log.clone(), from.state.steps);
        }
        while step < *steps && !observer.should_stop() {
            step += 1;
            let last = step == *steps;
            let reports = step % schedule.report_every == 0 || last;
            let saves = step % schedule.save_every == 0 && !last;
            let record = match training.step() {
                Ok(()) if reports || saves => training.standing().map(Some),
                taken => taken.map(|()| None),
            };
            match record {
                Ok(None) => {}
                Ok(Some(standing)) => {
                    if reports {
                        let record = Record { step, loss: standing.loss, penalty: standing.penalty };
                        log.push(record);
                        observer.report(&record);
                    }
                    if saves {
                        observer.save(&training.state()?, &log)?;
                    }
                }
                Err(error) => {
                    if matches!(error, Error::NonFinite(_)) {
                        observer.save(&training.state()?, &log)?;
                    }
                    return Err(error);
                }
            }
        }
        let state = training.state()?;
        observer.save(&state, &log)?;
        let complete = state.steps == *steps;
        Ok(TrainingOutcome { state, log, complete })
    }

    /// The training before its first step.
    fn training(&self, gpu: Option<&GpuEngine>) -> Result<Box<dyn Training>> {
        let mut start = start::initial_parameters(&self.data, &self.recipe, &self.targets)?;
        let mut free = start::free_parameters(&start, &self.targets);
        if let Some(knowledge) = &self.knowledge {
            knowledge.clear_forbidden(&mut start)?;
            knowledge.clear_forbidden(&mut free)?;
        }
        let multipliers = self.knowledge.as_ref().map(Knowledge::finite_multipliers);
        Ok(match gpu {
            Some(engine) => {
                let training = engine.train(&self.data, &self.spec, &start, &free)?;
                Box::new(match &multipliers {
                    Some(multipliers) => training.weighing(multipliers)?,
                    None => training,
                })
            }
            None => {
                let training = CpuTraining::new(&self.data, self.spec, &start, &free)?;
                Box::new(match multipliers {
                    Some(multipliers) => training.weighing(multipliers)?,
                    None => training,
                })
            }
        })
    }
}
