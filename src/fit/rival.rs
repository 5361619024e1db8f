//! Fits by a rival method.

use super::{ExactFit, PreparedFit, Recipe, RivalRecipe, Settings, Solver, Stability, TargetChoice};
use crate::kernel::KernelKind;
use crate::model::{LawKind, Model};
use crate::objective::Objective;
use crate::rival::{Options, RivalKind, RivalSettings};
use crate::{Error, Progress, Result};

impl Settings {
    /// The options of rivals, of which some belong to other fits too.
    pub(super) fn rival_options(&self) -> Options {
        Options {
            lambda: self.lambda,
            alpha: self.alpha,
            layers: self.layers,
            hidden: self.hidden,
            batch: self.batch,
            steps: self.steps,
            epochs: self.epochs,
            learning_rate: self.learning_rate,
            power_iterations: self.power_iterations,
        }
    }

    /// The recipe of a rival method, which has none of the settings of diffusions.
    pub(super) fn settle_rival(&self, kind: RivalKind) -> Result<Recipe> {
        let of_diffusions = [
            ("solver", self.solver.is_some()),
            ("tune", self.tune == Some(true)),
            ("model", self.model.is_some()),
            ("activation", self.activation.is_some()),
            ("features", self.features.is_some()),
            ("diffusion", self.diffusion.is_some()),
            ("law", self.law.is_some()),
            ("objective", self.objective.is_some()),
            ("kernel", self.kernel.is_some()),
            ("bandwidth", self.bandwidth.is_some()),
            ("estimator", self.estimator.is_some()),
            ("penalty", self.penalty.is_some()),
            ("ingoing", self.ingoing.is_some()),
            ("envs_per_step", self.envs_per_step.is_some()),
            ("learn_scale", self.learn_scale == Some(true)),
            ("stabilize", self.stabilize.is_some()),
        ];
        if let Some((name, _)) = of_diffusions.iter().find(|(_, given)| *given) {
            return Err(Error::invalid(format!(
                "{name} is given with the method {kind}, expected no method for it: it belongs to diffusions"
            )));
        }
        let targets = self.targets.unwrap_or(TargetChoice::Known);
        if targets == TargetChoice::Unknown {
            return Err(Error::invalid(format!(
                "targets are unknown with the method {kind}, expected the targets of each environment"
            )));
        }
        Ok(Recipe {
            form: super::DriftForm::Linear,
            law: LawKind::Structural,
            objective: Objective::Skds,
            kernel: KernelKind::TiltedRbf,
            solver: Solver::Rival(RivalRecipe(RivalSettings::new(kind, &self.rival_options())?)),
            learn_scale: false,
            standardize: self.standardize.unwrap_or(true),
            targets,
            stabilize: false,
            seed: self.seed.unwrap_or(0),
        })
    }
}

impl Recipe {
    /// The settings of a rival method, which settle to this recipe again.
    pub(super) fn rival_settings(&self, RivalRecipe(rival): &RivalRecipe) -> Settings {
        let options = rival.options();
        Settings {
            method: Some(rival.kind()),
            lambda: options.lambda,
            alpha: options.alpha,
            layers: options.layers,
            hidden: options.hidden,
            batch: options.batch,
            steps: options.steps,
            epochs: options.epochs,
            learning_rate: options.learning_rate,
            power_iterations: options.power_iterations,
            standardize: Some(self.standardize),
            targets: Some(self.targets),
            seed: Some(self.seed),
            ..Settings::default()
        }
    }
}

impl PreparedFit {
    /// A rival's fit. `progress` counts to its own work.
    pub(super) fn solve_rival(
        &self,
        RivalRecipe(rival): &RivalRecipe,
        progress: &Progress,
    ) -> Result<ExactFit> {
        let parameters = rival.fit(&self.data, self.recipe.seed, progress)?;
        let mut model = Model { law: LawKind::Structural, ..Model::new(self.in_data_units(&parameters)?) };
        self.describe(&mut model);
        Ok(ExactFit {
            model,
            stability: Stability::unchanged(None, true),
            loss: None,
            penalty: None,
            violation: 0.0,
            estimator: None,
            fell_back: false,
            tuning: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::data::Dataset;
    use crate::predict::{TargetMeans, match_means};
    use crate::sample::{Draw, SampleSettings, Sampler};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    /// a → b → c with effects 2 and −1; four environments that each push one variable, and an observational one.
    fn chain() -> Dataset {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut environment = |shift: [f64; 3]| {
            let mut rows = Vec::new();
            for _ in 0..400 {
                let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
                let a = 10.0 + shift[0] + noise();
                let b = 2.0 * a + shift[1] + noise();
                rows.extend([a, b, -b + shift[2] + noise()]);
            }
            Matrix::from_rows(400, 3, rows)
        };
        let shifts = [[0.0; 3], [4.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 6.0]];
        let data = Dataset::from_environments(shifts.map(&mut environment).to_vec()).unwrap();
        data.with_targets(Matrix::from_fn(4, 3, |e, j| e == j + 1)).unwrap()
    }

    #[test]
    fn every_rival_fits_saves_and_predicts() {
        let folder = tempfile::tempdir().unwrap();
        for &kind in RivalKind::ALL {
            let mut settings = Settings { method: Some(kind), ..Settings::default() };
            match kind {
                RivalKind::Dcdi => settings.steps = Some(4000),
                RivalKind::Nodags => settings.epochs = Some(3),
                _ => {}
            }
            let fit = PreparedFit::new(&chain(), &settings).unwrap();
            let progress = Progress::default();
            let model = fit.solve(None, &progress).unwrap().model;
            assert_eq!(progress.done(), fit.fit_count(), "{kind}");
            // Everything is in the file, and the settings settle to the same fit.
            let path = folder.path().join(format!("{kind}.safetensors"));
            model.save(&path).unwrap();
            assert_eq!(Model::read(&path).unwrap(), model, "{kind}");
            let again = fit.recipe.to_settings().settle().unwrap();
            assert_eq!(again, fit.recipe, "{kind}");
            let wanted = TargetMeans { targets: vec![0], means: vec![16.0] };
            let (sampler, settings) = (Sampler::cpu(), SampleSettings::default());
            let found = match_means(&sampler, &model, &[wanted], &settings, 0, &Progress::default()).unwrap();
            let intervention = found[0].as_ref().unwrap();
            assert!(intervention.shift[1..] == [0.0; 2], "{kind}: {intervention:?}");
            // For LLC a target depends on nothing, so its equations of data under shifts are wrong.
            assert!(intervention.shift[0] > 3.0 || kind == RivalKind::Llc, "{kind}: {intervention:?}");
            let draw = Draw { intervention, samples: 4000, seed: 9 };
            let drawn =
                sampler.draw(&model, &[draw], &settings, &Progress::default()).unwrap().remove(0).unwrap();
            let mean = drawn.as_slice().chunks(3).map(|row| row[0]).sum::<f64>() / 4000.0;
            assert!((mean - 16.0).abs() < 0.3, "{kind}: {mean}");
        }
    }

    #[test]
    fn graphs_and_effects_are_in_the_units_of_the_data() {
        for kind in [RivalKind::Gies, RivalKind::Igsp] {
            let settings = Settings { method: Some(kind), ..Settings::default() };
            let fit = PreparedFit::new(&chain(), &settings).unwrap();
            let model = fit.solve(None, &Progress::default()).unwrap().model;
            let weights = model.parameters.drift.linear_weights().unwrap();
            assert!((weights[(1, 0)] - 2.0).abs() < 0.1 && (weights[(2, 1)] + 1.0).abs() < 0.1, "{kind}");
            assert_eq!(weights[(0, 1)], 0.0, "{kind}");
        }
    }

    #[test]
    fn settings_of_diffusions_are_refused() {
        for (settings, piece) in [
            (
                Settings { learn_scale: Some(true), ..Settings::default() },
                "learn_scale is given with the method",
            ),
            (Settings { targets: Some(TargetChoice::Unknown), ..Settings::default() }, "targets are unknown"),
            (
                Settings { bandwidth: Some(crate::kernel::Bandwidth::Auto), ..Settings::default() },
                "bandwidth is given",
            ),
        ] {
            let sentence =
                Settings { method: Some(RivalKind::Gies), ..settings }.settle().unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
        let alone = Settings { alpha: Some(0.1), ..Settings::default() }.settle().unwrap_err().to_string();
        assert_eq!(alone, "alpha is given without a method, expected one that has it");
    }
}
