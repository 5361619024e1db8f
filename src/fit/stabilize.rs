//! Checks that a fitted model is stable, and replaces an unstable one by a stable one nearby.
//!
//! A linear drift has a stationary law only if all eigenvalues of W have negative real parts. The fit moves an unstable W towards
//! −I, which is stable: it multiplies the effects between variables by the largest factor below 1 that brings the spectral
//! abscissa to −[`MARGIN`] or below. A neural drift with a bounded activation always has a stationary law, because −x dominates
//! far out; with relu it may have none. Both are simulated, because loops of effects can hold variables far from the data, and
//! the law is then much wider than the data. A model of given functions is confined to a box around the data; simulation shows
//! how much of its law lies outside.

use crate::data::Dataset;
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, LossSpec};
use crate::model::{Drift, Model, Parameters};
use crate::numeric::statistics::moments;
use crate::sample::{
    EulerSettings, Intervention, Method, SampleSettings, spectral_abscissa, stationary_samples,
};
use crate::{Error, Matrix, Result};
use serde::Serialize;

/// The spectral abscissa of a stabilized drift is at most minus this. Closer to 0 the law is so wide that samples carry little
/// information.
pub(crate) const MARGIN: f64 = 0.05;

/// The stability of a fitted model, and what the fit did about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stability {
    /// The spectral abscissa of W: the largest real part of its eigenvalues (linear drift).
    pub spectral_abscissa: Option<f64>,
    /// Whether the fitted drift has a stationary law.
    pub stable: bool,
    /// The factor that the effects were multiplied by to stabilize the drift.
    pub factor: Option<f64>,
    /// The loss on all data before stabilization.
    pub loss_before: Option<f64>,
    /// The loss on all data after stabilization.
    pub loss_after: Option<f64>,
    /// The share of simulated points outside of the box around the data (drift of given functions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<f64>,
    /// The variable whose law is widest, compared with the data (MLP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub widest: Option<WidestVariable>,
    /// The weight that the penalty was raised to, because the law was much wider than the data (MLP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<f64>,
}

/// A law that is wider than the data by a larger factor is repaired, or gets a warning.
const MUCH_WIDER: f64 = 2.0;

/// How wide the law of a variable is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WidestVariable {
    /// Its name.
    pub variable: String,
    /// The standard deviation of its law over that of the data.
    pub ratio: f64,
}

impl Stability {
    /// The stability of a model that was not changed.
    pub(super) fn unchanged(abscissa: Option<f64>, stable: bool) -> Stability {
        Stability {
            spectral_abscissa: abscissa,
            stable,
            factor: None,
            loss_before: None,
            loss_after: None,
            outside: None,
            widest: None,
            raised: None,
        }
    }

    /// The variable whose law is much wider than the data, if there is one.
    pub fn much_wider(&self) -> Option<&WidestVariable> {
        self.widest.as_ref().filter(|widest| widest.ratio > MUCH_WIDER)
    }

    /// Whether a neural drift has no law, or one that is much wider than the data.
    pub(super) fn needs_repair(&self) -> bool {
        !self.stable || self.much_wider().is_some()
    }

    /// Checks one of the drifts that a model averages, in standard units. With `repair`, returns a stable drift. The result
    /// describes the worst of all drifts.
    pub(super) fn check_member(&mut self, weights: &Matrix<f64>, repair: bool) -> Result<Matrix<f64>> {
        let abscissa = spectral_abscissa(weights)?;
        self.spectral_abscissa = Some(self.spectral_abscissa.map_or(abscissa, |worst| worst.max(abscissa)));
        self.stable &= abscissa < 0.0;
        if abscissa <= -MARGIN || !repair {
            return Ok(weights.clone());
        }
        let factor = stabilizing_factor(abscissa, MARGIN);
        self.factor = Some(self.factor.map_or(factor, |least| least.min(factor)));
        Ok(with_effects_scaled(weights, factor))
    }
}

/// Checks the model. With `repair`, replaces an unstable linear drift by a stable one.
pub(super) fn stabilize(
    model: &mut Model,
    data: &Dataset,
    spec: &LossSpec,
    repair: bool,
) -> Result<Stability> {
    let unchanged = Stability::unchanged;
    let Ok(weights) = model.parameters.drift.linear_weights().cloned() else {
        return stability_by_simulation(model, data);
    };
    let abscissa = spectral_abscissa(&weights)?;
    if abscissa <= -MARGIN || !repair {
        return Ok(unchanged(Some(abscissa), abscissa < 0.0));
    }
    let factor = largest_factor(&weights)?;
    let before = loss(&model.parameters, data, spec)?;
    model.parameters.drift = Drift::linear(with_effects_scaled(&weights, factor));
    let after = loss(&model.parameters, data, spec)?;
    Ok(Stability {
        factor: Some(factor),
        loss_before: Some(before),
        loss_after: Some(after),
        ..unchanged(Some(abscissa), abscissa < 0.0)
    })
}

/// Whether a drift that is not linear leads its law away from the data, or has none.
fn stability_by_simulation(model: &Model, data: &Dataset) -> Result<Stability> {
    let unchanged = Stability::unchanged;
    if let Some(bounds) = model.parameters.drift.dynamics().bounds() {
        return Ok(Stability { outside: Some(share_outside(model, bounds)?), ..unchanged(None, true) });
    }
    match widest(model, data) {
        Ok(widest) => Ok(Stability { widest, ..unchanged(None, true) }),
        Err(Error::NonFinite(_)) => Ok(unchanged(None, false)),
        Err(other) => Err(other),
    }
}

/// W with its effects between variables multiplied by `factor`.
fn with_effects_scaled(weights: &Matrix<f64>, factor: f64) -> Matrix<f64> {
    Matrix::from_fn(weights.rows(), weights.cols(), |i, j| {
        weights[(i, j)] * if i == j { 1.0 } else { factor }
    })
}

/// W, whose diagonal is −1, with its effects shrunk until the spectral abscissa is at most −`margin`.
pub(super) fn stabilized_weights(weights: &Matrix<f64>, margin: f64) -> Result<Matrix<f64>> {
    let abscissa = spectral_abscissa(weights)?;
    Ok(if 1.0 + abscissa > 1.0 - margin {
        with_effects_scaled(weights, stabilizing_factor(abscissa, margin))
    } else {
        weights.clone()
    })
}

/// The factor of the effects that brings the spectral abscissa of W to −`margin`, where its diagonal is −1: the eigenvalues of W
/// + I scale with the effects.
fn stabilizing_factor(abscissa: f64, margin: f64) -> f64 {
    (1.0 - margin) / (1.0 + abscissa)
}

/// The largest factor that makes W stable with its margin, to three digits, by bisection: 0 always does, if the
/// diagonal is below −[`MARGIN`].
fn largest_factor(weights: &Matrix<f64>) -> Result<f64> {
    if let Some(j) = (0..weights.rows()).find(|&j| weights[(j, j)] > -MARGIN) {
        return Err(Error::invalid(format!(
            "variable {j} has the effect {} on itself, expected one below −{MARGIN} to find a stable model near",
            weights[(j, j)]
        )));
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..12 {
        let middle = 0.5 * (low + high);
        match spectral_abscissa(&with_effects_scaled(weights, middle))? <= -MARGIN {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low)
}

fn loss(parameters: &Parameters<f64>, data: &Dataset, spec: &LossSpec) -> Result<f64> {
    CpuEngine.load(data, spec)?.evaluate(parameters, None)
}

/// The share of the law outside the box around the data.
fn share_outside(model: &Model, (low, high): (&[f64], &[f64])) -> Result<f64> {
    let settings = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
    let mut samples = stationary_samples(model, &Intervention::none(model.dim()), 256, &settings, 0)?;
    if let Some(units) = &model.standardization {
        units.apply_to(&mut samples);
    }
    let inside = |i: &usize| {
        let row = samples.row(*i).iter().zip(low.iter().zip(high));
        row.into_iter().all(|(x, (low, high))| (low..=high).contains(&x))
    };
    Ok(1.0 - (0..samples.rows()).filter(inside).count() as f64 / samples.rows() as f64)
}

/// The variable whose law is widest compared with an environment of the data: an observational one if there is one. It is
/// estimated from a few chains, each thirty times as long as a variable's memory. If they diverge, the model has no law.
fn widest(model: &Model, data: &Dataset) -> Result<Option<WidestVariable>> {
    let e = data.observational().unwrap_or(0);
    let intervention = match model.parameters.shift {
        Some(_) => Intervention::of_environment(model, e)?,
        None => Intervention::none(model.dim()),
    };
    let euler = EulerSettings { dt: 0.02, burn_in: 1500, ..EulerSettings::default() };
    let settings = SampleSettings { method: Method::Euler, euler, ..SampleSettings::default() };
    let mut samples = stationary_samples(model, &intervention, CHAINS, &settings, 0)?;
    if let Some(units) = &model.standardization {
        units.apply_to(&mut samples);
    }
    let (_, modelled) = moments(&samples);
    let (_, observed) = moments(&data.environment(e));
    let ratios = modelled.iter().zip(&observed).map(|(law, data)| law / data.max(f64::MIN_POSITIVE));
    let widest = ratios.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(widest.map(|(j, ratio)| WidestVariable { variable: model.names[j].clone(), ratio }))
}

/// Chains that estimate the width of a law to about 10 %.
const CHAINS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::model::{Activation, MlpDrift, Noise};
    use crate::objective::{Estimator, Objective};

    fn model(effect: f64) -> Model {
        let weights = Matrix::from_rows(2, 2, vec![-1.0, effect, effect, -1.0]);
        Model::new(Parameters {
            drift: Drift::linear(weights),
            biases: vec![0.0; 2],
            noise: Noise::Diagonal { log_noise: vec![0.0; 2] },
            shift: None,
            log_scale: None,
        })
    }

    fn run(model: &mut Model, repair: bool) -> Stability {
        let samples = Matrix::from_fn(40, 2, |i, j| (0.7 * i as f64 + j as f64).sin());
        let data = Dataset::from_environments(vec![samples]).unwrap();
        let spec = LossSpec {
            objective: Objective::Skds,
            kernel: Kernel::Rbf { bandwidth: 1.0 },
            estimator: Estimator::Linear,
        };
        stabilize(model, &data, &spec, repair).unwrap()
    }

    /// Two variables that push each other: to either side if `gain` is large.
    fn pair_of_networks(gain: f64, activation: Activation) -> Model {
        Model::new(Parameters {
            drift: Drift::Mlp(MlpDrift {
                activation,
                hidden_weights: Matrix::from_rows(2, 2, vec![0.0, 1.0, 1.0, 0.0]),
                hidden_biases: Matrix::full(2, 1, 0.0),
                output_weights: Matrix::full(2, 1, gain),
            }),
            biases: vec![-0.5 * gain; 2],
            noise: Noise::Diagonal { log_noise: vec![0.0; 2] },
            shift: None,
            log_scale: None,
        })
    }

    #[test]
    fn a_neural_law_that_is_much_wider_than_the_data_is_noticed() {
        let calm = run(&mut pair_of_networks(0.5, Activation::Sigmoid), true);
        assert!(calm.stable && calm.widest.as_ref().unwrap().ratio < 1.5, "{calm:?}");
        let wide = run(&mut pair_of_networks(20.0, Activation::Sigmoid), true);
        assert!(wide.stable && wide.widest.as_ref().unwrap().ratio > 8.0, "{wide:?}");
        let none = run(&mut pair_of_networks(20.0, Activation::Relu), true);
        assert!(!none.stable, "{none:?}");
    }

    #[test]
    fn an_unstable_model_comes_back_at_the_margin_and_a_stable_one_as_it_was() {
        // Eigenvalues −1 ± effect.
        let mut unstable = model(1.6);
        let found = run(&mut unstable, true);
        assert!((found.spectral_abscissa.unwrap() - 0.6).abs() < 1e-9 && !found.stable);
        assert!((found.factor.unwrap() * 1.6 - 0.95).abs() < 1e-3, "{found:?}");
        assert!(found.loss_before.is_some() && found.loss_before != found.loss_after);
        assert!(run(&mut unstable, true).stable);
        let mut stable = model(0.5);
        assert_eq!(run(&mut stable, true).factor, None);
        assert_eq!(stable, model(0.5));
        let mut kept = model(1.6);
        assert!(!run(&mut kept, false).stable);
        assert_eq!(kept, model(1.6));
    }
}
