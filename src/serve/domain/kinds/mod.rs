//! The kinds of jobs. Each kind is one module, which defines its request (with the settings of the command line, under the same
//! names and with the same defaults) and implements [`Kind`] for it. The list below names every kind once.

pub(crate) mod evaluate;
pub(crate) mod fit;
pub(crate) mod loss;
pub(crate) mod sample;
pub(crate) mod simulate;
pub(crate) mod task;

#[cfg(test)]
mod added_in_tests;

use super::error::ServiceError;
use super::estimate::{Estimate, Records};
use super::id::ContentId;
use super::limits::Limits;
use crate::sample::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use task::{JobOutput, JointJob, JointTask, Outcome, Task};
use utoipa::ToSchema;

/// What a kind of job defines. Everything else in the service treats all kinds alike.
pub(crate) trait Kind {
    /// Checks the request by itself.
    fn check(&self) -> Result<(), ServiceError> {
        Ok(())
    }

    /// The stored files that the request names. They must exist and belong to the client.
    fn references(&self) -> References<'_> {
        References::default()
    }

    /// Checks the request against the records of these files and the limits of the service. The limit of memory is checked for
    /// every kind, by its estimate.
    fn check_against(&self, _records: &Records<'_>, _limits: &Limits) -> Result<(), ServiceError> {
        Ok(())
    }

    /// The device that the request asks for, by a part of its name.
    fn device(&self) -> Option<&str> {
        None
    }

    /// Estimates memory and work. A job with little work counts as short and does not wait for long ones.
    fn estimate(&self, records: &Records<'_>) -> Estimate;

    /// How the job is done.
    fn execution(&self) -> Execution<'_>;

    /// The settings in a few words, for lists. It takes the request as JSON, because records of other versions are listed, too.
    fn summary(_request: &Value) -> String
    where
        Self: Sized,
    {
        String::new()
    }

    /// The default settings, for kinds whose request has a field `settings` that the OpenAPI document describes by its defaults.
    fn default_settings() -> Option<Value>
    where
        Self: Sized,
    {
        None
    }
}

/// The stored files that a request names.
#[derive(Default)]
pub(crate) struct References<'a> {
    pub dataset: Option<&'a ContentId>,
    /// The data that predictions start from.
    pub origin: Option<&'a ContentId>,
    pub model: Option<&'a ContentId>,
}

/// How jobs of a kind are done.
pub(crate) enum Execution<'a> {
    /// One by one, in a process that a crash of the job cannot outlive.
    InProcess(&'a dyn ProcessKind),
    /// By the service itself, several short ones together.
    Jointly(&'a dyn JointKind),
}

/// A kind whose jobs run in a process of their own.
pub(crate) trait ProcessKind {
    /// Does the job. Files that it leaves in the job's folder can be downloaded; those that [`JobOutput`] names as a model or
    /// datasets are stored as such, too.
    fn run(&self, task: &Task<'_>) -> crate::Result<JobOutput>;
}

/// A kind whose short jobs are evaluated together.
pub(crate) trait JointKind {
    /// Whether another job can be evaluated together with this one.
    fn joins(&self, other: &Request) -> bool;

    /// Does all jobs, of which this request is the first one's. The outcomes are in the order of the jobs.
    fn run_all(&self, jobs: &[JointJob<'_>], task: &dyn JointTask) -> Vec<Outcome>;
}

/// What is known of a kind without a request.
struct KindEntry {
    name: &'static str,
    schema_name: fn() -> Cow<'static, str>,
    summary: fn(&Value) -> String,
    default_settings: fn() -> Option<Value>,
}

/// Makes the enum of requests from the list of kinds, and the list itself.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:literal => $variant:ident($request:ty)),* $(,)?) => {
        /// What a job is asked to do.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
        #[serde(tag = "kind")]
        pub enum Request {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? #[serde(rename = $name)] $variant($request)),*
        }

        impl Request {
            fn as_kind(&self) -> &dyn Kind {
                match self { $($(#[cfg($cfg)])? Request::$variant(request) => request),* }
            }

            /// The name of its kind.
            pub fn kind(&self) -> &'static str {
                match self { $($(#[cfg($cfg)])? Request::$variant(_) => $name),* }
            }
        }

        const KINDS: &[KindEntry] = &[$($(#[cfg($cfg)])? KindEntry {
            name: $name,
            schema_name: <$request as ToSchema>::name,
            summary: <$request as Kind>::summary,
            default_settings: <$request as Kind>::default_settings,
        }),*];
    };
}

kinds! {
    /// Fits a model to a dataset.
    "fit" => Fit(fit::FitRequest),
    /// Draws samples of a model's stationary law, or moves observed rows as an intervention would.
    "sample" => Sample(sample::SampleRequest),
    /// Predicts the interventions of a dataset and compares the predictions with it.
    "evaluate" => Evaluate(evaluate::EvaluateRequest),
    /// Evaluates the loss of a model on a dataset.
    "loss" => Loss(loss::LossRequest),
    /// Simulates a system and stores its data as datasets.
    "simulate" => Simulate(simulate::SimulateRequest),
    /// Counts the rows of a dataset.
    #[cfg(test)]
    "count-rows" => CountRows(added_in_tests::CountRowsRequest),
}

impl Request {
    /// The request in a body.
    pub(in crate::serve) fn parse(body: &[u8]) -> Result<Request, ServiceError> {
        serde_json::from_slice(body)
            .map_err(|error| ServiceError::invalid(format!("the body is not a request: {error}")))
    }

    /// The names of all kinds.
    pub(in crate::serve) fn kinds() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|kind| kind.name)
    }

    /// For every kind that has settings: the name of its request's schema, and the default settings.
    pub(in crate::serve) fn default_settings() -> impl Iterator<Item = (Cow<'static, str>, Value)> {
        KINDS.iter().filter_map(|kind| Some(((kind.schema_name)(), (kind.default_settings)()?)))
    }

    /// The settings of a request in a few words.
    pub(in crate::serve) fn summary(request: &Value) -> String {
        let kind = KINDS.iter().find(|kind| request["kind"] == kind.name);
        kind.map_or(String::new(), |kind| (kind.summary)(request))
    }

    pub(in crate::serve) fn check(&self) -> Result<(), ServiceError> {
        self.as_kind().check()
    }

    pub(in crate::serve) fn check_against(
        &self,
        records: &Records<'_>,
        limits: &Limits,
    ) -> Result<(), ServiceError> {
        self.as_kind().check_against(records, limits)
    }

    pub(in crate::serve) fn estimate(&self, records: &Records<'_>) -> Estimate {
        self.as_kind().estimate(records)
    }

    pub(in crate::serve) fn execution(&self) -> Execution<'_> {
        self.as_kind().execution()
    }

    pub(in crate::serve) fn references(&self) -> References<'_> {
        self.as_kind().references()
    }

    /// The device that the request asks for, by a part of its name.
    pub(in crate::serve) fn device(&self) -> Option<&str> {
        self.as_kind().device()
    }
}

/// The default method of requests that sample.
fn auto_method() -> Method {
    Method::Auto
}

#[cfg(test)]
mod tests;
