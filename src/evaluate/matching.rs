//! Which shift makes a variable's mean what it was seen to be?

use crate::model::{Drift, Model};
use crate::sample::{Intervention, Method, SampleSettings, stationary_samples};
use crate::{Error, Matrix, Result};
use faer::linalg::solvers::Solve;

/// The first step of the search, in the model's units of drift.
const FIRST_STEP: f64 = 0.1;
/// How often the step is doubled to find a bracket.
const DOUBLINGS: usize = 20;
/// How often the bracket is halved or cut by a secant.
const CUTS: usize = 14;
/// Sweeps over several targets, one after the other.
const SWEEPS: usize = 4;

/// The intervention on `targets` under which their stationary means are `means` (in the data's units): in closed form
/// for exact sampling of a linear model, otherwise by bracketing on simulations with one seed.
pub fn match_means(
    model: &Model,
    targets: &[usize],
    means: &[f64],
    settings: &SampleSettings,
    seed: u64,
) -> Result<Intervention> {
    let goal: Vec<f64> =
        targets.iter().zip(means).map(|(&j, mean)| in_model_units(model, j, *mean)).collect();
    match &model.parameters.drift {
        Drift::Linear { weights } if settings.method_for(model)? == Method::Exact => {
            closed_form(weights, &model.parameters.biases, targets, &goal)
        }
        _ => search(model, targets, &goal, settings, seed),
    }
}

/// A value of variable `j` in the units of the model.
fn in_model_units(model: &Model, j: usize, value: f64) -> f64 {
    model.standardization.as_ref().map_or(value, |units| units.standard(j, value))
}

/// The mean is −W⁻¹ (b + shift): linear in the shifts, so one small system for all targets.
fn closed_form(
    weights: &Matrix<f64>,
    biases: &[f64],
    targets: &[usize],
    goal: &[f64],
) -> Result<Intervention> {
    let (d, k) = (weights.rows(), targets.len());
    // Columns: the biases, then a unit vector per target.
    let right = faer::Mat::from_fn(d, k + 1, |i, c| match c {
        0 => -biases[i],
        c => -f64::from(u8::from(i == targets[c - 1])),
    });
    let moved = weights.view().partial_piv_lu().solve(&right);
    let system = faer::Mat::from_fn(k, k, |r, c| moved[(targets[r], c + 1)]);
    let gap = faer::Mat::from_fn(k, 1, |r, _| goal[r] - moved[(targets[r], 0)]);
    let shifts = system.partial_piv_lu().solve(&gap);
    let mut intervention = Intervention::none(d);
    for (r, &j) in targets.iter().enumerate() {
        if !shifts[(r, 0)].is_finite() {
            return Err(Error::NonFinite(format!("no shift of variable {j} reproduces its mean")));
        }
        intervention.shift[j] = shifts[(r, 0)];
    }
    Ok(intervention)
}

/// Brackets each target's shift in turn; several targets are gone through a few times.
fn search(
    model: &Model,
    targets: &[usize],
    goal: &[f64],
    settings: &SampleSettings,
    seed: u64,
) -> Result<Intervention> {
    let mut intervention = Intervention::none(model.dim());
    let sweeps = if targets.len() == 1 { 1 } else { SWEEPS };
    for _ in 0..sweeps {
        for (&j, goal) in targets.iter().zip(goal) {
            let base = intervention.clone();
            let miss = |shift: f64| -> Result<f64> {
                let mut tried = base.clone();
                tried.shift[j] = shift;
                let samples = stationary_samples(model, &tried, 512, settings, seed)?;
                let mean = (0..samples.rows()).map(|i| samples[(i, j)]).sum::<f64>() / samples.rows() as f64;
                Ok(in_model_units(model, j, mean) - goal)
            };
            intervention.shift[j] = root(base.shift[j], miss)?;
        }
    }
    Ok(intervention)
}

/// Where a function that grows with its argument, but for noise, is 0: doubling steps until it changes sign, then
/// secants kept within the bracket. The nearest point found if there is no change of sign.
fn root(start: f64, mut miss: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let first = miss(start)?;
    if first == 0.0 {
        return Ok(start);
    }
    let direction = -first.signum();
    let (mut near, mut near_miss) = (start, first);
    let mut step = FIRST_STEP;
    let mut bracket = None;
    for _ in 0..DOUBLINGS {
        let at = start + direction * step;
        let value = match miss(at) {
            // So far that the simulation diverges: the bracket ends before.
            Err(Error::NonFinite(_)) => break,
            other => other?,
        };
        if value.signum() != first.signum() {
            bracket = Some((at, value));
            break;
        }
        (near, near_miss) = (at, value);
        step *= 2.0;
    }
    let Some((mut far, mut far_miss)) = bracket else {
        return Ok(near);
    };
    for _ in 0..CUTS {
        let secant = near - near_miss * (far - near) / (far_miss - near_miss);
        // A secant that barely moves gains nothing: halve instead.
        let (low, high) = (near.min(far), near.max(far));
        let width = high - low;
        let at = if secant > low + 0.05 * width && secant < high - 0.05 * width {
            secant
        } else {
            0.5 * (low + high)
        };
        let value = miss(at)?;
        if value.signum() == near_miss.signum() {
            (near, near_miss) = (at, value);
        } else {
            (far, far_miss) = (at, value);
        }
        if width < 1e-4 * (1.0 + at.abs()) || value == 0.0 {
            break;
        }
    }
    Ok(if near_miss.abs() < far_miss.abs() { near } else { far })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Standardization;
    use crate::model::{Noise, Parameters};

    fn model() -> Model {
        Model {
            standardization: Some(Standardization { mean: vec![5.0, -1.0], scale: vec![2.0, 0.5] }),
            ..Model::new(Parameters {
                drift: Drift::Linear { weights: Matrix::from_rows(2, 2, vec![-1.0, 0.5, 0.3, -1.0]) },
                biases: vec![0.2, -0.4],
                noise: Noise::Diagonal { log_noise: vec![-1.0, -1.0] },
                shift: None,
                log_scale: None,
            })
        }
    }

    #[test]
    fn the_closed_form_reproduces_the_means() {
        for (targets, means) in [(vec![1], vec![-3.0]), (vec![0, 1], vec![9.0, 2.0])] {
            let settings = SampleSettings::default();
            let found = match_means(&model(), &targets, &means, &settings, 1).unwrap();
            let samples = stationary_samples(&model(), &found, 40_000, &settings, 2).unwrap();
            for (j, mean) in targets.iter().zip(&means) {
                let seen = (0..40_000).map(|i| samples[(i, *j)]).sum::<f64>() / 40_000.0;
                assert!((seen - mean).abs() < 0.02, "{targets:?} {seen} {mean}");
            }
        }
    }

    #[test]
    fn the_search_finds_what_the_closed_form_finds() {
        let exact = match_means(&model(), &[1], &[-3.0], &SampleSettings::default(), 1).unwrap();
        let settings = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
        let searched = match_means(&model(), &[1], &[-3.0], &settings, 1).unwrap();
        // 512 samples have a mean to about 0.02 standard deviations.
        assert!((exact.shift[1] - searched.shift[1]).abs() < 0.1, "{exact:?} {searched:?}");
        assert_eq!(searched.shift[0], 0.0);
    }

    #[test]
    fn roots_are_bracketed_from_both_sides_and_far_away() {
        for goal in [0.013, -7.0, 900.0] {
            let found = root(0.0, |x| Ok((x - goal).atan())).unwrap();
            assert!((found - goal).abs() < 1e-2 * (1.0 + f64::abs(goal)), "{goal} {found}");
        }
        // No root: the search ends.
        assert!(root(0.0, |x| Ok(1.0 + x.exp())).unwrap().is_finite());
    }
}
