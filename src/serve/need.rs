//! What a job will need, by its settings and by what is known of its data and model: roughly, and before anything is read.

use super::request::Request;
use super::store::{DatasetInfo, ModelInfo};
use crate::fit::ModelKind;
use crate::model::PenaltyKind;
use crate::model::basis::FeatureChoice;
use crate::sample::{Method, Sampler};
use crate::solve::{bytes_of_fit, fits_at_once};

/// Losses and samples of fewer operations are let pass by long jobs: about a second on a processor.
const SHORT: f64 = 5e10;

/// Memory and work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    pub bytes: f64,
    /// Floating-point operations; only of losses and samples.
    pub operations: f64,
}

impl Need {
    pub fn of(request: &Request, data: Option<&DatasetInfo>, model: Option<&ModelInfo>) -> Need {
        let (rows, d) = data.map_or((0.0, 0.0), |data| (data.rows as f64, data.variables.len() as f64));
        let sizes = || data.iter().flat_map(|data| &data.environments).map(|environment| environment.rows);
        let parameters = model.map_or(0.0, |model| model.parameters as f64);
        // Samples in f64 and f32, drift and its derivative, work space.
        let samples = 32.0 * rows * d;
        match request {
            Request::Fit(fit) => {
                let settings = &fit.settings;
                let exact = settings.is_exact().unwrap_or(false);
                let width = match &settings.features {
                    _ if settings.model != ModelKind::Basis => d,
                    FeatureChoice::Polynomial(degree) => {
                        (1..=(*degree).min(64)).map(|k| d.powi(k as i32)).sum()
                    }
                    FeatureChoice::Rbf(count) => d * (1.0 + *count as f64),
                    FeatureChoice::File(_) => d,
                };
                let bytes = match exact {
                    // The problems of the variables for as many fits as run at once, and the functions of the data.
                    true => {
                        let several = settings.is_tuned().unwrap_or(false) || fit.bootstrap.is_some();
                        let alone = settings.penalty.kind().unwrap_or(PenaltyKind::Ingoing);
                        let kind = if several { PenaltyKind::Both } else { alone };
                        let (d, width) = (d as usize, width as usize);
                        let at_once = if several { fits_at_once(d, width) } else { 1 };
                        let at_once = at_once.min(rayon::current_num_threads());
                        bytes_of_fit(d, width, kind) * at_once as f64 + 32.0 * rows * width as f64
                    }
                    // Parameters, gradient, both moments, and a copy of all for checkpoints.
                    false if settings.model == ModelKind::Mlp => 32.0 * d * d * settings.hidden as f64,
                    false => 32.0 * d * d,
                };
                Need { bytes: samples + bytes, operations: f64::INFINITY }
            }
            Request::Sample(sample) => {
                let settings = sample.settings();
                let (n, d) = (sample.n as f64, model.map_or(0, |model| model.variables.len()) as f64);
                let linear = model.is_some_and(|model| model.kind == "linear");
                let exact = linear && settings.method != Method::Euler && !settings.nonnegative;
                let operations = match exact {
                    true => 2.0 * n * d * d + 60.0 * d.powi(3),
                    false => {
                        Sampler::cpu().steps_for(sample.n, &settings) as f64 * (2.0 * parameters + 50.0 * d)
                    }
                };
                Need { bytes: 24.0 * n * d, operations }
            }
            Request::Evaluate(_) => {
                // Distances between all samples of an environment and as many predicted ones, three times.
                let most = sizes().max().unwrap_or(0) as f64;
                Need { bytes: samples + 32.0 * most * most, operations: f64::INFINITY }
            }
            Request::Loss(loss) => {
                let pairs = sizes().map(|n| loss.estimator.pairs(n) as f64).sum::<f64>();
                Need {
                    bytes: samples + 32.0 * parameters,
                    operations: 20.0 * pairs * d + 4.0 * rows * parameters,
                }
            }
            Request::Simulate(simulate) => {
                let settings = &simulate.settings;
                let environments = 1.0 + settings.train_envs as f64 + settings.test_envs as f64;
                let bytes = 24.0 * environments * settings.rows as f64 * settings.dim as f64;
                Need { bytes, operations: f64::INFINITY }
            }
        }
    }

    /// Whether a long job lets it pass.
    pub fn is_short(&self) -> bool {
        self.operations < SHORT
    }
}
