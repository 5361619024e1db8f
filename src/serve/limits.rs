//! What clients may ask for, checked before work starts.

use super::problem::Problem;
use super::request::Request;
use super::store::DatasetInfo;
use crate::fit::ModelKind;
use axum::http::StatusCode;

/// Bounds of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of an upload.
    pub upload_bytes: u64,
    /// Bytes of any other body.
    pub body_bytes: u64,
    /// Variables of a dataset or model.
    pub variables: usize,
    /// Bytes that a job may need, roughly.
    pub job_bytes: u64,
    /// Seconds that a job may take.
    pub job_seconds: f64,
    /// Jobs that may wait.
    pub queued: usize,
    /// Samples that may be drawn at once.
    pub samples: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            upload_bytes: 1 << 30,
            body_bytes: 1 << 20,
            variables: 5000,
            job_bytes: 4 << 30,
            job_seconds: 24.0 * 3600.0,
            queued: 1000,
            samples: 1_000_000,
        }
    }
}

fn over(what: &str, found: impl std::fmt::Display, most: impl std::fmt::Display) -> Problem {
    let sentence = format!("{what} is {found}, expected at most {most} on this service");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, sentence)
}

impl Limits {
    /// Variables of data that arrives.
    pub fn check_variables(&self, found: usize) -> Result<(), Problem> {
        if found > self.variables {
            Err(over("the number of variables", found, self.variables))
        } else {
            Ok(())
        }
    }

    /// What a job will need, by its settings and its data.
    pub fn check(&self, request: &Request, data: Option<&DatasetInfo>) -> Result<(), Problem> {
        let (rows, d) = data.map_or((0.0, 0.0), |data| (data.rows as f64, data.variables.len() as f64));
        // Samples in f64 and f32, drift and its derivative, work space.
        let mut bytes = 32.0 * rows * d;
        match request {
            Request::Fit(fit) => {
                let units =
                    if fit.settings.model == ModelKind::Mlp { d * fit.settings.hidden as f64 } else { d };
                // Parameters, gradient, both moments, and a copy of all for checkpoints.
                bytes += 32.0 * units * d;
            }
            Request::Simulate(simulate) => {
                let settings = &simulate.settings;
                self.check_variables(settings.dim)?;
                let environments = (1 + settings.train_envs + settings.test_envs) as f64;
                bytes += 24.0 * environments * settings.rows as f64 * settings.dim as f64;
            }
            Request::Sample(sample) if sample.n > self.samples => {
                return Err(over("the number of samples", sample.n, self.samples));
            }
            _ => {}
        }
        if bytes > self.job_bytes as f64 {
            let mib = |bytes: f64| format!("{:.0} MiB", bytes / f64::from(1 << 20));
            return Err(over("the memory that the job needs", mib(bytes), mib(self.job_bytes as f64)));
        }
        Ok(())
    }
}
