//! Chooses the loss, the bandwidth and the penalty of a model that Adam trains.
//!
//! Each candidate is trained without each group of interventions, with half the steps. It predicts how all means change if the
//! means of the left-out targets change as observed. The candidate with the smallest error is then trained on all data.

use super::score::Rule;
use super::{Candidate, Folds, Method, Scores};
use crate::data::Dataset;
use crate::engine::State;
use crate::engine::gpu::GpuEngine;
use crate::fit::training::{TrainingObserver, TrainingSchedule};
use crate::fit::tuning::{ENOUGH_INTERVENTIONS, Tuning, interventions_to_leave_out};
use crate::fit::{
    ChoiceRun, ChoiceRuns, DriftForm, EnvironmentsPerStep, KernelChoice, PenaltyStrength, PreparedFit,
    Record, Settings, TargetChoice, TrainingChoice,
};
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::{Model, PenaltyKind};
use crate::objective::Objective;
use crate::predict::changes_of_means;
use crate::sample::{EulerSettings, SampleSettings, Sampler};
use crate::solve::moments::Moments;
use crate::{Error, Matrix, Progress, Result};
use rayon::prelude::*;
use std::sync::Mutex;

/// Penalties, descending.
const KDS: [f64; 5] = [0.1, 0.03, 0.01, 0.003, 0.001];
const SKDS: [f64; 3] = [0.03, 0.01, 0.003];
/// Bandwidths of KDS, in median distances; SKDS has the last one alone.
const BANDWIDTHS: [f64; 2] = [0.5, 1.0];
/// The most groups of interventions that are left out.
const FOLDS: usize = 5;
/// The same, and bandwidths, where time is short.
const FEW_FOLDS: usize = 3;
const FEW_BANDWIDTHS: usize = 1;
/// The most operations of all trainings together: a quarter of an hour on two cores.
const MOST_WORK: f64 = 1.5e14;
/// Trainings that are only compared take this share of the steps.
const SHARE_OF_STEPS: u32 = 2;
/// Steps between two looks at who watches.
const STEPS_PER_REPORT: u32 = 200;
/// A prediction counts as so many steps in the progress.
const STEPS_PER_PREDICTION: u32 = 1000;

/// What is compared, and by which groups of interventions.
pub(in crate::fit) struct TrainedChoice<'a> {
    fit: &'a PreparedFit,
    candidates: Vec<Candidate>,
    kernels: Vec<KernelKind>,
    folds: Folds,
    steps: u32,
}

/// Who keeps the trainings of a choice that are done.
pub type KeepRuns<'a> = dyn Fn(&ChoiceRuns) -> Result<()> + Sync + 'a;

impl<'a> TrainedChoice<'a> {
    /// The choice that a fit leaves open; why there is none if the data does not allow it.
    pub(in crate::fit) fn of(
        fit: &'a PreparedFit,
        choice: TrainingChoice,
    ) -> Result<std::result::Result<Self, String>> {
        let known = fit.recipe.targets == TargetChoice::Known;
        let interventions = interventions_to_leave_out(&fit.targets, known).len();
        if interventions < ENOUGH_INTERVENTIONS {
            return Ok(Err(format!(
                "{interventions} interventions are known, expected at least {ENOUGH_INTERVENTIONS} to leave some out"
            )));
        }
        let median = Bandwidth::Auto.resolve(&fit.data, fit.recipe.seed)?;
        let steps = fit.steps().div_ceil(SHARE_OF_STEPS);
        for (folds, bandwidths) in
            [(FOLDS, BANDWIDTHS.len()), (FEW_FOLDS, BANDWIDTHS.len()), (FEW_FOLDS, FEW_BANDWIDTHS)]
        {
            let folds = Folds::at_most(folds, &fit.targets);
            let multiples = &BANDWIDTHS[BANDWIDTHS.len() - bandwidths..];
            let (candidates, kernels) = candidates(choice, multiples, median);
            let all = TrainedChoice { fit, candidates, kernels, folds, steps };
            if all.operations() <= MOST_WORK {
                return Ok(Ok(all));
            }
        }
        let (all, most) = (fit.data.dim(), f64::from(steps));
        Ok(Err(format!("comparing them takes too long with {all} variables and {most} steps for each")))
    }

    /// Multiplications and additions of all trainings.
    fn operations(&self) -> f64 {
        let (d, recipe) = (self.fit.data.dim() as f64, &self.fit.recipe);
        let DriftForm::Mlp { hidden, .. } = recipe.form else { return 0.0 };
        let adam = self.fit.adam();
        let environments = match adam.envs_per_step {
            EnvironmentsPerStep::All => self.fit.data.environments(),
            EnvironmentsPerStep::Some(count) => count,
        };
        // Two products, with additions, and what grows with rows alone.
        let rows = (adam.batch * environments) as f64;
        self.runs() as f64
            * f64::from(self.steps)
            * rows
            * (4.0 * d * d * hidden as f64 + 100.0 * d * hidden as f64)
    }

    /// How many interventions each fold leaves out.
    pub(in crate::fit) fn interventions(&self) -> Vec<usize> {
        self.folds.left_out.iter().map(Vec::len).collect()
    }

    /// Trainings.
    fn runs(&self) -> usize {
        self.candidates.len() * self.folds.left_out.len()
    }

    /// What the progress of [`run`](Self::run) counts to.
    pub(in crate::fit) fn work(&self) -> u64 {
        self.runs() as u64 * u64::from(self.steps + STEPS_PER_PREDICTION)
    }

    /// Trains and predicts what `kept` does not hold yet, and chooses. `keep` receives all runs after each.
    pub(in crate::fit) fn run(
        &self,
        gpu: Option<&GpuEngine>,
        kept: ChoiceRuns,
        progress: &Progress,
        keep: &KeepRuns<'_>,
    ) -> Result<(PreparedFit, Tuning)> {
        let moments = Moments::of(&self.fit.data, &vec![0; self.fit.data.environments()], progress)?;
        let mut all = self.candidates.clone();
        all.push(Candidate { method: Method::Nothing, bandwidth: None, lambda: 0.0 });
        let mut scores = Scores::unscored(&moments, &self.fit.targets, &self.folds, all, Rule::Best);
        let places: Vec<(usize, usize)> = (0..self.candidates.len())
            .flat_map(|candidate| (0..self.folds.left_out.len()).map(move |fold| (candidate, fold)))
            .collect();
        let missing: Vec<(usize, usize)> =
            places.iter().copied().filter(|&(candidate, fold)| kept.get(candidate, fold).is_none()).collect();
        progress.add((places.len() - missing.len()) as u64 * u64::from(self.steps + STEPS_PER_PREDICTION))?;
        let runs = Mutex::new(kept);
        let one = |&(candidate, fold): &(usize, usize)| -> Result<()> {
            let changes = self.predict(&scores, candidate, fold, gpu, progress)?;
            let mut runs = runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            runs.add(ChoiceRun { candidate, fold, changes });
            keep(&runs)
        };
        match gpu {
            // A device does one training at a time.
            Some(_) => missing.iter().try_for_each(one)?,
            None => missing.par_iter().with_max_len(1).try_for_each(one)?,
        }
        let runs = runs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let d = self.fit.data.dim();
        for candidate in 0..self.candidates.len() {
            let of_fold = |fold| runs.get(candidate, fold).expect("all runs are done").changes.iter();
            let lost = vec![f64::NAN; d];
            let predicted = (0..self.folds.left_out.len()).flat_map(of_fold);
            let predicted =
                predicted.map(|changes| changes.clone().unwrap_or_else(|| lost.clone())).collect();
            scores.record(candidate, predicted);
        }
        let unmoved = |k: usize| {
            let (targets, changes) = scores.given(k);
            let mut all = vec![0.0; d];
            targets.iter().zip(changes).for_each(|(&j, change)| all[j] = change);
            all
        };
        let unmoved = (0..scores.environments.len()).map(unmoved).collect();
        scores.record(self.candidates.len(), unmoved);
        let kind = self.fit.recipe.solver.strength().as_ref().and_then(PenaltyStrength::penalty);
        let tuning =
            scores.tuning(self.folds.left_out.len(), kind.map_or(PenaltyKind::Both, |penalty| penalty.kind));
        let settings = Settings { tune: Some(false), ..self.settings(tuning.leading) };
        Ok((self.fit.with_settings(&settings)?, tuning))
    }

    /// The fit's settings with those of a candidate.
    fn settings(&self, candidate: usize) -> Settings {
        let Candidate { method, bandwidth, lambda } = self.candidates[candidate];
        let kernel = self.kernels[candidate];
        Settings {
            objective: Some(if method == Method::Kds { Objective::Kds } else { Objective::Skds }),
            kernel: Some(KernelChoice::Pairs(kernel)),
            bandwidth: bandwidth.map(Bandwidth::Value),
            lambda: Some(lambda),
            penalty: self.fit.recipe.solver.strength().map(|strength| strength.penalty),
            tune: None,
            ..self.fit.recipe.to_settings()
        }
    }

    /// Trains a candidate without a fold, and predicts the changes of means in its environments; none where the model has no law.
    fn predict(
        &self,
        scores: &Scores,
        candidate: usize,
        fold: usize,
        gpu: Option<&GpuEngine>,
        progress: &Progress,
    ) -> Result<Vec<Option<Vec<f64>>>> {
        let left_out = &self.folds.left_out[fold];
        let data = without(&self.fit.data, left_out)?;
        let environments = match self.fit.adam().envs_per_step {
            EnvironmentsPerStep::Some(count) => EnvironmentsPerStep::Some(count.min(data.environments())),
            all => all,
        };
        let settings = Settings {
            standardize: Some(false),
            stabilize: Some(false),
            steps: Some(self.steps),
            envs_per_step: Some(environments),
            ..self.settings(candidate)
        };
        let fit = PreparedFit::prepare(&data, &settings, self.fit.knowledge.clone())?;
        let schedule = TrainingSchedule { report_every: STEPS_PER_REPORT, save_every: self.steps };
        let mut steps = Steps { progress, taken: 0 };
        let trained = fit.train(gpu, None, schedule, &mut steps);
        let taken = steps.taken;
        let predicted = match trained {
            Ok(outcome) if !outcome.complete => return Err(Error::Stopped),
            Ok(outcome) => {
                let model = Model::new(outcome.state.parameters.cast());
                let first: usize = self.folds.left_out[..fold].iter().map(Vec::len).sum();
                let wanted: Vec<_> = (first..first + left_out.len()).map(|k| scores.given(k)).collect();
                // Half of the usual precision in time: errors of predictions are far larger.
                let euler = EulerSettings { dt: 0.02, burn_in: 1500, ..EulerSettings::default() };
                let settings = SampleSettings { euler, ..SampleSettings::default() };
                let changes = changes_of_means(
                    &Sampler::cpu(),
                    &model,
                    &wanted,
                    &settings,
                    self.fit.recipe.seed,
                    &progress.part(),
                )?;
                changes.into_iter().map(Result::ok).collect()
            }
            Err(Error::NonFinite(_)) => vec![None; left_out.len()],
            Err(other) => return Err(other),
        };
        progress.add(u64::from(self.steps - taken + STEPS_PER_PREDICTION))?;
        Ok(predicted)
    }
}

/// The candidates: each loss at each bandwidth, with falling penalties; and the kernel of each.
fn candidates(choice: TrainingChoice, multiples: &[f64], median: f64) -> (Vec<Candidate>, Vec<KernelKind>) {
    let mut all = Vec::new();
    for (objective, kernel) in choice.losses() {
        let (method, lambdas, multiples) = match objective {
            Objective::Kds => (Method::Kds, &KDS[..], multiples),
            Objective::Skds => (Method::Skds, &SKDS[..], &multiples[multiples.len() - 1..]),
        };
        let bandwidths: Vec<Option<f64>> = match kernel.has_bandwidth() {
            true => multiples.iter().map(|multiple| Some(multiple * median)).collect(),
            false => vec![None],
        };
        for bandwidth in bandwidths {
            let at = |&lambda: &f64| (Candidate { method, bandwidth, lambda }, kernel);
            all.extend(lambdas.iter().map(at));
        }
    }
    all.into_iter().unzip()
}

/// The data without some environments.
fn without(data: &Dataset, left_out: &[usize]) -> Result<Dataset> {
    let kept: Vec<usize> = (0..data.environments()).filter(|e| !left_out.contains(e)).collect();
    let targets = Matrix::from_fn(kept.len(), data.dim(), |k, j| data.targets()[(kept[k], j)]);
    let environments = kept.iter().map(|&e| data.environment(e)).collect();
    Dataset::from_environments(environments)?.with_targets(targets)?.with_names(data.names().to_vec())
}

/// Counts steps.
struct Steps<'a> {
    progress: &'a Progress,
    taken: u32,
}

impl TrainingObserver for Steps<'_> {
    fn report(&mut self, record: &Record) {
        // A stop is asked for by `should_stop`.
        let _ = self.progress.add(u64::from(record.step - self.taken));
        self.taken = record.step;
    }

    fn save(&mut self, _: &State, _: &[Record]) -> Result<()> {
        Ok(())
    }

    fn should_stop(&self) -> bool {
        self.progress.check().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::ModelKind;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    /// b follows a and c follows b; `pushes` environments push one variable each.
    fn chain(pushes: usize) -> Dataset {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let mut environment = |e: usize| {
            let mut rows = Vec::new();
            for _ in 0..150 {
                let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
                let push = |j: usize| if e > 0 && (e - 1) % 3 == j { 4.0 } else { 0.0 };
                let a = push(0) + noise();
                let b = 0.9 * a + push(1) + 0.5 * noise();
                rows.extend([a, b, 0.9 * b + push(2) + 0.5 * noise()]);
            }
            Matrix::from_rows(150, 3, rows)
        };
        let data = Dataset::from_environments((0..=pushes).map(&mut environment).collect()).unwrap();
        data.with_targets(Matrix::from_fn(pushes + 1, 3, |e, j| e > 0 && (e - 1) % 3 == j)).unwrap()
    }

    fn settings() -> Settings {
        Settings {
            model: Some(ModelKind::Mlp),
            hidden: Some(3),
            steps: Some(600),
            batch: Some(64),
            learning_rate: Some(0.01),
            ..Settings::default()
        }
    }

    fn problem() -> PreparedFit {
        PreparedFit::new(&chain(4), &settings()).unwrap()
    }

    fn choose(problem: &PreparedFit, kept: ChoiceRuns, keep: &KeepRuns<'_>) -> (PreparedFit, Tuning) {
        problem.choose(None, kept, &Progress::default(), keep).unwrap().unwrap()
    }

    #[test]
    fn it_chooses_what_predicts_interventions_better_than_no_effect() {
        let problem = problem();
        let progress = Progress::default();
        let (chosen, tuning) =
            problem.choose(None, ChoiceRuns::new(&problem), &progress, &|_| Ok(())).unwrap().unwrap();
        assert_eq!(Some(progress.done()), problem.choice_work().unwrap());
        assert_eq!((tuning.folds, tuning.interventions), (4, 4));
        // The candidates, and no effect.
        assert_eq!(tuning.settings.len(), 2 * KDS.len() + SKDS.len() + 1);
        let best = &tuning.settings[tuning.leading];
        assert!(best.weight == 1.0 && best.ratio.unwrap() < 0.5, "{best:?}");
        assert!(tuning.settings.iter().all(|setting| setting.score.unwrap() >= best.score.unwrap()));
        assert!(tuning.expected_error.unwrap().ratio < 0.6, "{:?}", tuning.expected_error);
        // What was chosen is what will be trained.
        let fixed = chosen.recipe.solver.fixed().unwrap();
        assert_eq!(fixed.lambda, best.lambda);
        assert_eq!(fixed.bandwidth, Bandwidth::Value(best.bandwidth.unwrap()));
        assert_eq!((chosen.recipe.solver.adam().unwrap().choice, chosen.adam().steps), (None, 600));
        assert!(chosen.choice_work().unwrap().is_none());
        let refused = problem.train(
            None,
            None,
            TrainingSchedule { report_every: 1, save_every: 1 },
            &mut crate::fit::Unobserved,
        );
        assert!(refused.unwrap_err().to_string().contains("to be chosen"));
    }

    #[test]
    fn a_choice_that_was_stopped_goes_on_to_the_same_result() {
        let problem = problem();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.choice.json");
        let (_, whole) = choose(&problem, ChoiceRuns::new(&problem), &|_| Ok(()));
        let progress = Progress::default();
        let keep = |runs: &ChoiceRuns| {
            if runs.count() == 7 {
                progress.stop();
            }
            runs.write(&path)
        };
        let stopped = problem.choose(None, ChoiceRuns::new(&problem), &progress, &keep);
        assert!(matches!(stopped, Err(Error::Stopped)));
        let kept = ChoiceRuns::read_for(&path, &problem).unwrap();
        let before = kept.count();
        assert!((7..20).contains(&before), "{before}");
        let most = Mutex::new(0);
        let (_, resumed) = choose(&problem, kept, &|runs| {
            *most.lock().unwrap() += 1;
            runs.write(&path)
        });
        assert_eq!(resumed, whole);
        assert_eq!(most.into_inner().unwrap() + before, 4 * (2 * KDS.len() + SKDS.len()));
        // For other data, other settings and damage there is a sentence.
        let other = PreparedFit::new(&chain(5), &settings()).unwrap();
        let sentence = ChoiceRuns::read_for(&path, &other).unwrap_err().to_string();
        assert!(sentence.contains("was written for other data"), "{sentence}");
        let longer = Settings { steps: Some(700), ..settings() };
        let other = PreparedFit::new(&chain(4), &longer).unwrap();
        let sentence = ChoiceRuns::read_for(&path, &other).unwrap_err().to_string();
        assert!(sentence.contains("found steps = 600, expected 700"), "{sentence}");
        std::fs::write(&path, "{").unwrap();
        assert!(
            ChoiceRuns::read_for(&path, &problem)
                .unwrap_err()
                .to_string()
                .contains("other text than expected")
        );
    }

    #[test]
    fn without_interventions_to_leave_out_the_defaults_are_taken_and_that_is_said() {
        let few = PreparedFit::new(&chain(2), &settings()).unwrap();
        assert!(few.choice_work().unwrap().is_none());
        assert!(
            few.remarks()[0].contains("2 interventions are known, expected at least 3"),
            "{:?}",
            few.remarks()
        );
        let recipe = &few.recipe;
        assert_eq!((recipe.objective, recipe.kernel), (Objective::Kds, KernelKind::Rbf));
        assert_eq!(recipe.solver.fixed().unwrap().lambda, 0.03);
        assert_eq!(few.spec.loss.objective, Objective::Kds);
        let asked = PreparedFit::new(&chain(2), &Settings { tune: Some(true), ..settings() });
        assert!(asked.err().unwrap().to_string().starts_with("tune is given, but 2 interventions are known"));
        let long = Settings { steps: Some(u32::MAX), ..settings() };
        let long = PreparedFit::new(&chain(4), &long).unwrap();
        assert!(long.remarks()[0].contains("comparing them takes too long"), "{:?}", long.remarks());
    }
}
