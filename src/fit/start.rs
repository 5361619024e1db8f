//! The initial parameters of a training: near zero, with shifts estimated from means; and which parameters stay fixed.

use super::{DriftForm, Recipe, TargetChoice};
use crate::data::Dataset;
use crate::model::{Drift, MlpDrift, Noise, Parameters};
use crate::{Error, Matrix, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The standard deviation of initial weights.
const WEIGHT_SCALE: f64 = 1e-3;
/// The initial log noise.
const LOG_NOISE: f64 = -2.0;

/// Which variables each environment may intervene on.
pub(super) fn targets(data: &Dataset, choice: TargetChoice) -> Matrix<bool> {
    match choice {
        TargetChoice::Known => data.targets().clone(),
        TargetChoice::Unknown => Matrix::from_fn(data.environments(), data.dim(), |e, _| e > 0),
    }
}

/// The parameters before the first step.
pub(super) fn initial_parameters(
    data: &Dataset,
    recipe: &Recipe,
    targets: &Matrix<bool>,
) -> Result<Parameters<f32>> {
    let (d, e) = (data.dim(), data.environments());
    let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed);
    let mut small = |rows: usize, cols: usize| {
        Matrix::from_fn(rows, cols, |_, _| {
            let value: f64 = StandardNormal.sample(&mut rng);
            WEIGHT_SCALE * value
        })
    };
    let drift = match recipe.form {
        DriftForm::Basis { .. } => {
            return Err(Error::invalid("the model is basis, expected linear or mlp to take steps from"));
        }
        DriftForm::Linear => Drift::linear(small(d, d)),
        DriftForm::Mlp { hidden, activation } => Drift::Mlp(MlpDrift {
            activation,
            hidden_weights: small(d * hidden, d),
            hidden_biases: small(d, hidden),
            output_weights: small(d, hidden),
        }),
    };
    let mut parameters = Parameters {
        drift,
        biases: vec![0.0; d],
        noise: Noise::Diagonal { log_noise: vec![LOG_NOISE; d] },
        shift: Some(mean_differences(data, targets)),
        log_scale: recipe.learn_scale.then(|| Matrix::full(e, d, 0.0)),
    };
    parameters.impose_fixed(targets);
    Ok(parameters.cast())
}

/// The difference between the mean of each target and its mean over the environments without interventions (or the first
/// environment, if there are none). With the drift −x + …, a shift of that size moves the mean as far.
fn mean_differences(data: &Dataset, targets: &Matrix<bool>) -> Matrix<f64> {
    let (d, all) = (data.dim(), data.environments());
    let means: Vec<Vec<f64>> = (0..all).map(|e| data.means(e)).collect();
    let mut observed: Vec<usize> = (0..all).filter(|&e| !targets.row(e).contains(&true)).collect();
    if observed.is_empty() {
        observed.push(0);
    }
    let reference: Vec<f64> =
        (0..d).map(|j| observed.iter().map(|&e| means[e][j]).sum::<f64>() / observed.len() as f64).collect();
    Matrix::from_fn(all, d, |e, j| if targets[(e, j)] { means[e][j] - reference[j] } else { 0.0 })
}

/// 1 where a parameter may change, 0 where it is fixed.
pub(super) fn free_parameters(parameters: &Parameters<f32>, targets: &Matrix<bool>) -> Parameters<f32> {
    let mut free = parameters.zeros_like();
    for (_, values) in free.tensors_mut() {
        values.fill(1.0);
    }
    free.mask_fixed(targets);
    free
}
