//! Scores by held-out rows, for data with too few known interventions to leave any out.
//!
//! A fit to a bootstrap sample is scored by the rows that were not drawn: the squared 2-Wasserstein distance between the model's
//! Gaussian and theirs. This measures how well the model fits the observed distribution, not what an intervention does.

use super::{Candidate, CandidateFit, FitContext};
use crate::data::Dataset;
use crate::fit::stabilize::stabilized_weights;
use crate::fit::tuning::{held_out_rows, resampled};
use crate::model::{LawKind, Model};
use crate::numeric::dense::{symmetric_eigenvalues, symmetric_root};
use crate::numeric::matmul::product_sequential;
use crate::sample::{Gaussian, Intervention, LinearParts};
use crate::solve::moments::Tolerance;
use crate::{Error, Matrix, Progress, Result};
use faer::Accum;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Bootstrap samples.
pub(super) const SAMPLES: usize = 6;
/// The stability margin of the fits.
const MARGIN: f64 = 0.1;

/// Mean and covariance of samples, and the root of the covariance.
struct Observed {
    mean: Vec<f64>,
    trace: f64,
    root: Matrix<f64>,
}

/// The logarithms of distances of held-out rows: candidate by bootstrap sample. `progress` counts fits.
pub(super) fn scores(
    context: &FitContext<'_>,
    data: &Dataset,
    candidates: &[Candidate],
    tolerance: Tolerance,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Vec<f64>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = Vec::new();
    for _ in 0..SAMPLES {
        drawn.push(resampled(data, &mut rng)?);
    }
    // Several fits run at a time, each in f64 on the CPU.
    let context = FitContext { gpu: None, ..*context };
    let by_sample: Vec<Vec<f64>> = drawn
        .par_iter()
        .with_max_len(1)
        .map(|(drawn, left_out)| {
            let observed: Vec<Observed> = left_out
                .iter()
                .enumerate()
                .map(|(e, rows)| observe(&held_out_rows(data, e, rows)?))
                .collect::<Result<_>>()?;
            let fits = context.fits(drawn, candidates, tolerance, progress)?;
            progress.add(fits.len() as u64)?;
            fits.iter().map(|fit| score(fit, &observed)).collect()
        })
        .collect::<Result<_>>()?;
    Ok((0..candidates.len()).map(|c| by_sample.iter().map(|scores| scores[c]).collect()).collect())
}

/// The mean logarithm of the distance to held-out rows, each environment under its own fitted intervention. Infinite if the model
/// has no stationary law.
fn score(fit: &CandidateFit, observed: &[Observed]) -> Result<f64> {
    let mut parameters = fit.parameters.clone();
    let law = fit.candidate.method.law();
    if law == LawKind::Diffusion {
        let weights = parameters.drift.linear_weights_mut()?;
        *weights = stabilized_weights(weights, MARGIN)?;
    }
    let model = Model { law, ..Model::new(parameters) };
    let parts = LinearParts::of(&model)?;
    let mut sum = 0.0;
    for (e, observed) in observed.iter().enumerate() {
        match parts.gaussian(&Intervention::of_environment(&model, e)?) {
            Ok(law) => sum += distance(&law, observed)?.ln(),
            Err(Error::NonFinite(_)) => return Ok(f64::INFINITY),
            Err(other) => return Err(other),
        }
    }
    Ok(sum / observed.len() as f64)
}

/// The squared 2-Wasserstein distance between a law and the Gaussian of what was observed.
fn distance(law: &Gaussian, observed: &Observed) -> Result<f64> {
    let d = law.mean.len();
    let means: f64 = law.mean.iter().zip(&observed.mean).map(|(a, b)| (a - b) * (a - b)).sum();
    let trace: f64 = (0..d).map(|j| law.covariance[(j, j)]).sum();
    // tr (R Σ R)^½ with R the root of the observed covariance.
    let (mut half, mut middle) = (Matrix::full(d, d, 0.0), Matrix::full(d, d, 0.0));
    product_sequential(half.view_mut(), Accum::Replace, observed.root.view(), law.covariance.view());
    product_sequential(middle.view_mut(), Accum::Replace, half.view(), observed.root.view());
    let symmetric = Matrix::from_fn(d, d, |i, j| 0.5 * (middle[(i, j)] + middle[(j, i)]));
    let overlap: f64 = symmetric_eigenvalues(symmetric.view())?.iter().map(|v| v.max(0.0).sqrt()).sum();
    let covariances = trace + observed.trace - 2.0 * overlap;
    Ok((means + covariances.max(0.0)).max(f64::MIN_POSITIVE))
}

fn observe(x: &Matrix<f64>) -> Result<Observed> {
    let (n, d) = (x.rows(), x.cols());
    let mean: Vec<f64> = (0..d).map(|j| (0..n).map(|i| x[(i, j)]).sum::<f64>() / n as f64).collect();
    let centred = Matrix::from_fn(n, d, |i, j| x[(i, j)] - mean[j]);
    let mut covariance = Matrix::full(d, d, 0.0);
    product_sequential(covariance.view_mut(), Accum::Replace, centred.view().transpose(), centred.view());
    covariance.as_mut_slice().iter_mut().for_each(|entry| *entry /= n as f64);
    let trace = (0..d).map(|j| covariance[(j, j)]).sum();
    Ok(Observed { mean, trace, root: symmetric_root(covariance.view())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_gaussians_is_known() {
        // Independent variables: squared differences of means and of deviations.
        let law =
            Gaussian { mean: vec![1.0, 0.0], covariance: Matrix::from_rows(2, 2, vec![4.0, 0.0, 0.0, 1.0]) };
        let observed = Observed {
            mean: vec![0.0, 2.0],
            trace: 10.0,
            root: Matrix::from_rows(2, 2, vec![1.0, 0.0, 0.0, 3.0]),
        };
        let expected: f64 = 1.0 + 4.0 + 1.0 + 4.0;
        assert!((distance(&law, &observed).unwrap() - expected).abs() < 1e-12);
    }
}
