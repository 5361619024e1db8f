//! The mean and covariance of a model's stationary law under an intervention.

use crate::model::Model;
use crate::numeric::matmul::product;
use crate::numeric::statistics::moments;
use crate::sample::{Draw, Gaussian, Intervention, LinearParts, Method, SampleSettings, Sampler};
use crate::{Error, Matrix, Progress, Result};
use faer::Mat;
use std::borrow::Cow;
use std::sync::Arc;

/// Samples that estimate a law without a closed form.
const SAMPLES: usize = 2048;
/// The least number of samples per variable. With fewer, the covariance would be singular.
const SAMPLES_EACH: usize = 8;

/// Samples that estimate the law of `d` variables.
pub(crate) fn law_samples(d: usize) -> usize {
    SAMPLES.max(SAMPLES_EACH * d)
}

/// Mean and covariance, in standard units if the model knows them, otherwise in the data's units.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// d.
    pub mean: Vec<f64>,
    /// d × d. Laws that differ in the mean only share it.
    pub covariance: Arc<Matrix<f64>>,
}

/// The law of the model under each intervention. It is exact for a linear model that is sampled exactly. Otherwise it is
/// estimated from samples with the same seed for all interventions, so that the errors of two laws cancel in their difference.
///
/// Predictions use nothing else of a model. If the model has no stationary law under an intervention, that entry is an error.
pub fn laws_of(
    sampler: &Sampler,
    model: &Model,
    interventions: &[&Intervention],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Law>>> {
    model.parameters.check_shapes()?;
    // Many treatments share the law without intervention: each law is computed once.
    let mut distinct: Vec<&Intervention> = Vec::new();
    let mut places = Vec::new();
    for &intervention in interventions {
        intervention.check_fits(&model.parameters)?;
        let known = distinct.iter().position(|known| *known == intervention);
        places.push(known.unwrap_or(distinct.len()));
        if known.is_none() {
            distinct.push(intervention);
        }
    }
    let laws = match settings.method_for(model)? {
        Method::Exact if !model.is_of_equations() => gaussian(model, &distinct)?,
        _ => sampled(sampler, model, &distinct, settings, seed, progress)?,
    };
    progress.check()?;
    Ok(places.into_iter().map(|place| duplicate(&laws[place])).collect())
}

/// A copy of a law, or of the reason why there is none.
pub(super) fn duplicate(law: &Result<Law>) -> Result<Law> {
    match law {
        Ok(law) => Ok(law.clone()),
        Err(reason) => Err(Error::NonFinite(reason.to_string())),
    }
}

/// Shifts move only the mean of a linear model, so there is one covariance for each noise. An ensemble's means and covariances
/// are averages.
fn gaussian(model: &Model, interventions: &[&Intervention]) -> Result<Vec<Result<Law>>> {
    let standard = model.in_standard_units();
    let inside = |intervention: &Intervention| match (&standard, &model.reference) {
        (Cow::Owned(_), Some(units)) => intervention.in_standard_units(units),
        _ => intervention.clone(),
    };
    let parts = LinearParts::of(&standard)?;
    let mut covariances: Vec<(Vec<f64>, Arc<Matrix<f64>>)> = Vec::new();
    let mut law_of = |intervention: Intervention| {
        if let Some((_, covariance)) = covariances.iter().find(|(scale, _)| *scale == intervention.log_scale)
        {
            return Ok(Law { mean: parts.mean(&intervention), covariance: covariance.clone() });
        }
        let Gaussian { mean, covariance } = parts.gaussian(&intervention)?;
        let covariance = Arc::new(covariance);
        covariances.push((intervention.log_scale, covariance.clone()));
        Ok(Law { mean, covariance })
    };
    Ok(interventions.iter().map(|intervention| law_of(inside(intervention))).collect())
}

fn sampled(
    sampler: &Sampler,
    model: &Model,
    interventions: &[&Intervention],
    settings: &SampleSettings,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Result<Law>>> {
    let samples = law_samples(model.dim());
    let draws: Vec<Draw<'_>> =
        interventions.iter().map(|intervention| Draw { intervention, samples, seed }).collect();
    let drawn = sampler.draw(model, &draws, settings, &progress.part())?;
    drawn
        .into_iter()
        .map(|samples| match samples {
            Ok(mut samples) => {
                if let Some(units) = model.units() {
                    units.apply_to(&mut samples);
                }
                Ok(Ok(law_of_samples(&samples)))
            }
            Err(unstable @ Error::NonFinite(_)) => Ok(Err(unstable)),
            Err(other) => Err(other),
        })
        .collect()
}

fn law_of_samples(samples: &Matrix<f64>) -> Law {
    let (n, d) = (samples.rows(), samples.cols());
    let (mean, _) = moments(samples);
    let centred = Matrix::from_fn(n, d, |i, j| samples[(i, j)] - mean[j]);
    let mut sums = Mat::zeros(d, d);
    product(sums.as_mut(), centred.view().transpose(), centred.view());
    let covariance = Matrix::from_fn(d, d, |i, j| 0.5 * (sums[(i, j)] + sums[(j, i)]) / n as f64);
    Law { mean, covariance: Arc::new(covariance) }
}
