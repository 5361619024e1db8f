//! Training by Adam: the steps of a prepared fit, on any device, with somebody to watch them.
//!
//! A neural drift whose stationary law is much wider than the data, or that has none, is trained on with a larger penalty: in
//! rounds of half the steps, each with √10 times the penalty of the one before. Which round a step belongs to follows from its number, so a
//! checkpoint needs nothing else to go on.

use super::choose::{KeepRuns, TrainedChoice};
use super::{
    AdamRecipe, Checkpoint, ChoiceRuns, DriftForm, Knowledge, PreparedFit, Record, Stability, Tuning,
    WidestVariable, start,
};
use crate::engine::cpu::CpuTraining;
use crate::engine::gpu::GpuEngine;
use crate::engine::{State, Training, TrainingSpec};
use crate::model::Penalty;
use crate::{Error, Progress, Result};

/// How often the penalty is raised at most, and by which factor.
const RAISES: u32 = 3;
const RAISE: f64 = 3.162_277_660_168_379_5;

/// Hears how a training goes, keeps its checkpoints, and may end it early.
pub trait TrainingObserver {
    /// Is called every [`TrainingSchedule::report_every`] steps, and after the last.
    fn report(&mut self, record: &Record);

    /// Saves the state: every [`TrainingSchedule::save_every`] steps, when the training ends early, and after its last step.
    fn save(&mut self, state: &State, log: &[Record]) -> Result<()>;

    /// Whether the training should end early.
    fn should_stop(&self) -> bool;

    /// Is called before the training goes on with a larger penalty.
    fn raises(&mut self, _: &RaisedPenalty) {}
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

/// A larger penalty, because the law of a neural drift is much wider than the data.
#[derive(Clone, Debug, PartialEq)]
pub struct RaisedPenalty {
    /// The variable whose law is widest; none if the model has no law.
    pub widest: Option<WidestVariable>,
    /// The new weight λ.
    pub lambda: f64,
    /// The last step with it.
    pub until: u32,
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
    /// What the progress of [`choose`](Self::choose) counts to; none if no settings are left to choose.
    pub fn choice_work(&self) -> Result<Option<u64>> {
        Ok(self.open_choice()?.map(|choice| choice.work()))
    }

    /// Chooses what the settings leave open by predictions of left-out interventions. Returns the fit with all settings and how they were
    /// chosen; none if nothing was left to choose. Runs that `kept` holds are not done again, and `keep` receives all runs after each.
    pub fn choose(
        &self,
        gpu: Option<&GpuEngine>,
        mut kept: ChoiceRuns,
        progress: &Progress,
        keep: &KeepRuns<'_>,
    ) -> Result<Option<(PreparedFit, Tuning)>> {
        let Some(choice) = self.open_choice()? else { return Ok(None) };
        kept.keep_whole(&choice.interventions());
        choice.run(gpu, kept, progress, keep).map(Some)
    }

    fn open_choice(&self) -> Result<Option<TrainedChoice<'_>>> {
        match self.recipe.solver.adam().and_then(|adam| adam.choice) {
            Some(choice) => Ok(TrainedChoice::of(self, choice)?.ok()),
            None => Ok(None),
        }
    }

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
        self.train_while(gpu, from, schedule, observer, Stability::needs_repair)
    }

    /// The same with any judgement of which models need a larger penalty.
    pub(super) fn train_while(
        &self,
        gpu: Option<&GpuEngine>,
        from: Option<&Checkpoint>,
        schedule: TrainingSchedule,
        observer: &mut dyn TrainingObserver,
        needs_repair: impl Fn(&Stability) -> bool,
    ) -> Result<TrainingOutcome> {
        match self.recipe.solver.adam() {
            None => return Err(Error::invalid("the solver is exact, expected adam to take steps with")),
            Some(AdamRecipe { choice: Some(_), .. }) => {
                return Err(Error::invalid(
                    "the settings are to be chosen, expected chosen ones to train with",
                ));
            }
            Some(_) => {}
        }
        let mut round = from.map_or(0, |from| self.round_of(from.state.steps));
        let mut outcome = self.train_round(gpu, round, from.map(Standing::of), schedule, observer)?;
        while outcome.complete && round < RAISES && self.may_raise() {
            let (_, stability) = self.model(&outcome.state)?;
            if !needs_repair(&stability) {
                break;
            }
            round += 1;
            let lambda = self.penalty_of(round).map_or(0.0, |penalty| penalty.lambda);
            observer.raises(&RaisedPenalty { widest: stability.widest, lambda, until: self.end_of(round) });
            let standing = Standing { state: &outcome.state, log: &outcome.log };
            outcome = self.train_round(gpu, round, Some(standing), schedule, observer)?;
        }
        Ok(outcome)
    }

    /// Takes the steps of a round that are missing.
    fn train_round(
        &self,
        gpu: Option<&GpuEngine>,
        round: u32,
        from: Option<Standing<'_>>,
        schedule: TrainingSchedule,
        observer: &mut dyn TrainingObserver,
    ) -> Result<TrainingOutcome> {
        let steps = self.end_of(round);
        let mut training = self.training(gpu, round)?;
        let (mut log, mut step) = (Vec::new(), 0);
        if let Some(from) = from {
            training.restore(from.state)?;
            (log, step) = (from.log.to_vec(), from.state.steps);
        }
        while step < steps && !observer.should_stop() {
            step += 1;
            let last = step == steps;
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
        let complete = state.steps == steps;
        Ok(TrainingOutcome { state, log, complete })
    }

    /// How training goes; only for fits that train.
    pub(super) fn adam(&self) -> &AdamRecipe {
        self.recipe.solver.adam().expect("the fit trains")
    }

    /// The steps of the first round.
    pub(super) fn steps(&self) -> u32 {
        self.adam().steps
    }

    /// Steps of a further round.
    fn further_steps(&self) -> u32 {
        self.steps().div_ceil(2)
    }

    /// The last step of a round.
    fn end_of(&self, round: u32) -> u32 {
        self.steps().saturating_add(round.saturating_mul(self.further_steps()))
    }

    /// The last step that a training may take.
    pub(super) fn most_steps(&self) -> u32 {
        if self.may_raise() { self.end_of(RAISES) } else { self.steps() }
    }

    /// The round that a step belongs to.
    pub(super) fn round_of(&self, step: u32) -> u32 {
        step.saturating_sub(self.steps()).div_ceil(self.further_steps())
    }

    /// The penalty of a round.
    pub(super) fn penalty_of(&self, round: u32) -> Option<Penalty> {
        let raised =
            |penalty: Penalty| Penalty { lambda: penalty.lambda * RAISE.powi(round as i32), ..penalty };
        self.spec.penalty.map(raised)
    }

    /// Whether a law that is too wide leads to a larger penalty.
    fn may_raise(&self) -> bool {
        let penalised = self.spec.penalty.is_some_and(|penalty| penalty.lambda > 0.0);
        matches!(self.recipe.form, DriftForm::Mlp { .. }) && self.recipe.stabilize && penalised
    }

    /// The training before its first step, with the penalty of a round.
    fn training(&self, gpu: Option<&GpuEngine>, round: u32) -> Result<Box<dyn Training>> {
        let spec = TrainingSpec { penalty: self.penalty_of(round), ..self.spec };
        let mut start = start::initial_parameters(&self.data, &self.recipe, &self.targets)?;
        let mut free = start::free_parameters(&start, &self.targets);
        if let Some(knowledge) = &self.knowledge {
            knowledge.clear_forbidden(&mut start)?;
            knowledge.clear_forbidden(&mut free)?;
        }
        let multipliers = self.knowledge.as_ref().map(Knowledge::finite_multipliers);
        Ok(match gpu {
            Some(engine) => {
                let training = engine.train(&self.data, &spec, &start, &free)?;
                Box::new(match &multipliers {
                    Some(multipliers) => training.weighing(multipliers)?,
                    None => training,
                })
            }
            None => {
                let training = CpuTraining::new(&self.data, spec, &start, &free)?;
                Box::new(match multipliers {
                    Some(multipliers) => training.weighing(multipliers)?,
                    None => training,
                })
            }
        })
    }
}

/// Where a round begins.
struct Standing<'a> {
    state: &'a State,
    log: &'a [Record],
}

impl Standing<'_> {
    fn of(from: &Checkpoint) -> Standing<'_> {
        Standing { state: &from.state, log: &from.log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::data::Dataset;
    use crate::fit::{ModelKind, Settings};

    fn problem() -> PreparedFit {
        let samples =
            |e: usize| Matrix::from_fn(60, 3, |i, j| (1.7 * (i + 11 * e) as f64 + 2.0 * j as f64).sin());
        let data = Dataset::from_environments(vec![samples(0), samples(1)]).unwrap();
        let settings = Settings {
            model: Some(ModelKind::Mlp),
            hidden: Some(2),
            lambda: Some(0.01),
            steps: Some(21),
            batch: Some(16),
            ..Settings::default()
        };
        PreparedFit::new(&data, &settings).unwrap()
    }

    const SCHEDULE: TrainingSchedule = TrainingSchedule { report_every: 1, save_every: 4 };

    /// Keeps everything, and stops after a step.
    struct Watcher {
        stop_after: u32,
        last: u32,
        raised: Vec<RaisedPenalty>,
        saved: Option<(State, Vec<Record>)>,
    }

    impl Watcher {
        fn until(stop_after: u32) -> Self {
            Watcher { stop_after, last: 0, raised: Vec::new(), saved: None }
        }
    }

    impl TrainingObserver for Watcher {
        fn report(&mut self, record: &Record) {
            self.last = record.step;
        }

        fn save(&mut self, state: &State, log: &[Record]) -> Result<()> {
            self.saved = Some((state.clone(), log.to_vec()));
            Ok(())
        }

        fn should_stop(&self) -> bool {
            self.last >= self.stop_after
        }

        fn raises(&mut self, raised: &RaisedPenalty) {
            self.raised.push(raised.clone());
        }
    }

    #[test]
    fn rounds_follow_from_steps() {
        let problem = problem();
        let rounds = [(0, 0), (21, 0), (22, 1), (32, 1), (33, 2), (43, 2), (54, 3)];
        for (step, round) in rounds {
            assert_eq!(problem.round_of(step), round, "{step}");
        }
        assert_eq!((problem.end_of(1), problem.most_steps()), (32, 54));
        let lambda = |round| problem.penalty_of(round).unwrap().lambda;
        assert!((lambda(0) - 0.01).abs() < 1e-15 && (lambda(2) - 0.1).abs() < 1e-12);
        // Who keeps laws as they are, or penalises nothing, gets no larger penalty.
        let settings = problem.recipe.to_settings();
        for settings in [
            Settings { stabilize: Some(false), ..settings.clone() },
            Settings { lambda: Some(0.0), ..settings },
        ] {
            let other = problem.with_settings(&settings).unwrap();
            let mut watcher = Watcher::until(u32::MAX);
            let outcome = other.train_while(None, None, SCHEDULE, &mut watcher, |_| true).unwrap();
            assert_eq!((outcome.state.steps, watcher.raised.len()), (21, 0));
        }
    }

    #[test]
    fn a_law_that_stays_too_wide_gets_larger_penalties_and_a_good_one_none() {
        let problem = problem();
        let mut watcher = Watcher::until(u32::MAX);
        let calm = problem.train_while(None, None, SCHEDULE, &mut watcher, |_| false).unwrap();
        assert_eq!((calm.state.steps, calm.complete, watcher.raised.len()), (21, true, 0));
        let (model, stability) = problem.model(&calm.state).unwrap();
        assert!(stability.raised.is_none() && !model.settings.contains_key("raised"));

        let wide = problem.train_while(None, None, SCHEDULE, &mut watcher, |_| true).unwrap();
        assert_eq!((wide.state.steps, wide.complete), (54, true));
        let raised: Vec<(u32, f64)> =
            watcher.raised.iter().map(|raised| (raised.until, raised.lambda)).collect();
        assert_eq!(raised.iter().map(|(until, _)| *until).collect::<Vec<_>>(), [32, 43, 54]);
        assert!((raised[2].1 - 0.01 * 10f64.powf(1.5)).abs() < 1e-9);
        // The logged penalty is λ times the same norms as those of a training that goes on without a larger penalty.
        let longer =
            problem.with_settings(&Settings { steps: Some(22), ..problem.recipe.to_settings() }).unwrap();
        let longer = longer.train_while(None, None, SCHEDULE, &mut Unobserved, |_| false).unwrap();
        assert_eq!(longer.log[..21], wide.log[..21]);
        assert!((wide.log[21].penalty / longer.log[21].penalty / RAISE - 1.0).abs() < 1e-3);
        let (model, stability) = problem.model(&wide.state).unwrap();
        assert_eq!(stability.raised, Some(raised[2].1));
        assert_eq!(model.settings["lambda"], 0.01);
        assert!(model.settings["raised"].as_f64().unwrap() > 0.3);
    }

    #[test]
    fn a_training_that_stops_in_any_round_goes_on_to_the_same_end() {
        let problem = problem();
        let whole = problem.train_while(None, None, SCHEDULE, &mut Unobserved, |_| true).unwrap();
        for stop_after in [5, 21, 22, 30, 32, 40, 53] {
            let mut watcher = Watcher::until(stop_after);
            let part = problem.train_while(None, None, SCHEDULE, &mut watcher, |_| true).unwrap();
            assert!(part.state.steps >= stop_after && part.state.steps < 54, "{stop_after}");
            let (state, log) = watcher.saved.unwrap();
            let from = Checkpoint::new(&problem, &state, &log);
            let rest = problem.train_while(None, Some(&from), SCHEDULE, &mut Unobserved, |_| true).unwrap();
            assert_eq!(rest, whole, "{stop_after}");
        }
    }
}
