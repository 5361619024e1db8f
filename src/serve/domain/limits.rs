//! What clients may ask for. Limits are checked before any work starts.

use super::error::ServiceError;
use crate::data::SizeLimits;
use std::time::Duration;

/// The limits of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The most bytes of an upload.
    pub upload_bytes: u64,
    /// The most bytes of any other request body.
    pub body_bytes: u64,
    /// The most variables of a dataset or model.
    pub variables: usize,
    /// The most environments of a dataset.
    pub environments: usize,
    /// The most bytes of a variable's name.
    pub name_bytes: usize,
    /// The most bytes of memory that a job may need, by a rough estimate.
    pub job_bytes: u64,
    /// The most seconds that a job may take.
    pub job_seconds: f64,
    /// The most jobs that may wait.
    pub queued: usize,
    /// The most jobs of one client that may wait.
    pub queued_each: usize,
    /// The most samples that one job may draw.
    pub samples: usize,
    /// The most connections at a time, as far as there are file handles for them.
    pub connections: usize,
    /// The most time that a client may take for the head of a request, between two parts of a body or of a response, and between
    /// two requests.
    pub patience: Duration,
    /// The least rate of a request body in bytes per second, once `patience` has passed.
    pub pace: u64,
    /// The most time that the service may take to stop.
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

    /// The error for something that exceeds a limit.
    pub(in crate::serve) fn exceeded(
        what: &str,
        found: impl std::fmt::Display,
        most: impl std::fmt::Display,
    ) -> ServiceError {
        ServiceError::unprocessable(format!("{what} is {found}, expected at most {most} on this service"))
    }

    /// Checks the number of variables.
    pub(in crate::serve) fn check_variables(&self, found: usize) -> Result<(), ServiceError> {
        check("the number of variables", found, self.variables)
    }

    /// Checks the number of environments.
    pub(in crate::serve) fn check_environments(&self, found: usize) -> Result<(), ServiceError> {
        check("the number of environments", found, self.environments)
    }

    /// Checks the number of samples that a job draws.
    pub(in crate::serve) fn check_samples(&self, found: usize) -> Result<(), ServiceError> {
        check("the number of samples", found, self.samples)
    }

    /// Checks the memory that something needs.
    pub(in crate::serve) fn check_bytes(&self, bytes: f64) -> Result<(), ServiceError> {
        if bytes > self.job_bytes as f64 {
            let mib = |bytes: f64| format!("{:.0} MiB", bytes / f64::from(1 << 20));
            let what = "the memory that it needs";
            return Err(Limits::exceeded(what, mib(bytes), mib(self.job_bytes as f64)));
        }
        Ok(())
    }
}

fn check(what: &str, found: usize, most: usize) -> Result<(), ServiceError> {
    if found > most { Err(Limits::exceeded(what, found, most)) } else { Ok(()) }
}
