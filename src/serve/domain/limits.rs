//! What clients may ask for, checked before work starts.

use crate::data::SizeLimits;
use crate::serve::domain::need::Need;
use crate::serve::domain::problem::Problem;
use crate::serve::domain::request::Request;
use axum::http::StatusCode;
use std::time::Duration;

/// Bounds of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of an upload.
    pub upload_bytes: u64,
    /// Bytes of any other body.
    pub body_bytes: u64,
    /// Variables of a dataset or model.
    pub variables: usize,
    /// Environments of a dataset.
    pub environments: usize,
    /// Bytes of a variable's name.
    pub name_bytes: usize,
    /// Bytes that a job may need, roughly.
    pub job_bytes: u64,
    /// Seconds that a job may take.
    pub job_seconds: f64,
    /// Jobs that may wait.
    pub queued: usize,
    /// Jobs of one client that may wait.
    pub queued_each: usize,
    /// Samples that may be drawn at once.
    pub samples: usize,
    /// Connections at a time, if there are file handles for as many.
    pub connections: usize,
    /// What a client may take for the head of a request, between two parts of a body or of an answer, and between two requests.
    pub patience: Duration,
    /// Bytes of a body per second that a client must reach once its patience is over.
    pub pace: u64,
    /// What the service may take to end.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            upload_bytes: 1 << 30,
            body_bytes: 1 << 20,
            variables: 5000,
            environments: 10_000,
            name_bytes: 200,
            job_bytes: 4 << 30,
            job_seconds: 24.0 * 3600.0,
            queued: 1000,
            queued_each: 500,
            samples: 1_000_000,
            connections: 1000,
            patience: Duration::from_secs(30),
            pace: 16 << 10,
            shutdown: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// What a data file may hold.
    pub(in crate::serve) fn most(&self) -> SizeLimits {
        SizeLimits { variables: self.variables, bytes: self.job_bytes }
    }

    /// Something is more than it may be.
    pub(in crate::serve) fn over(
        &self,
        what: &str,
        found: impl std::fmt::Display,
        most: impl std::fmt::Display,
    ) -> Problem {
        let sentence = format!("{what} is {found}, expected at most {most} on this service");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, sentence)
    }

    /// Variables of data that arrives.
    pub fn check_variables(&self, found: usize) -> Result<(), Problem> {
        if found > self.variables {
            Err(self.over("the number of variables", found, self.variables))
        } else {
            Ok(())
        }
    }

    /// Environments of data that arrives.
    pub fn check_environments(&self, found: usize) -> Result<(), Problem> {
        if found > self.environments {
            Err(self.over("the number of environments", found, self.environments))
        } else {
            Ok(())
        }
    }

    /// A job, by what it asks for and what it will need.
    pub fn check(&self, request: &Request, need: &Need) -> Result<(), Problem> {
        match request {
            Request::Simulate(simulate) => self.check_variables(simulate.settings.dim)?,
            Request::Sample(sample) if sample.samples() > self.samples => {
                return Err(self.over("the number of samples", sample.samples(), self.samples));
            }
            _ => {}
        }
        self.check_bytes(need.bytes)
    }

    /// Memory that is about to be needed.
    pub fn check_bytes(&self, bytes: f64) -> Result<(), Problem> {
        if bytes > self.job_bytes as f64 {
            let mib = |bytes: f64| format!("{:.0} MiB", bytes / f64::from(1 << 20));
            return Err(self.over("the memory that it needs", mib(bytes), mib(self.job_bytes as f64)));
        }
        Ok(())
    }
}
