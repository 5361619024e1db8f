//! Jobs: their records, states and progress.

use super::id::JobId;
use super::kinds::Request;
use super::now;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JobState {
    /// The job waits in the queue.
    Queued,
    /// A worker is doing the job.
    Running,
    /// The job has a result.
    Done,
    /// The job has an error.
    Failed,
    /// Somebody cancelled the job.
    Cancelled,
    /// This version cannot read the job's record.
    Unreadable,
}

impl JobState {
    /// All states that a record can have.
    pub(crate) const KNOWN: [JobState; 5] =
        [JobState::Queued, JobState::Running, JobState::Done, JobState::Failed, JobState::Cancelled];

    pub(crate) fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
            JobState::Unreadable => "unreadable",
        }
    }

    pub(crate) fn is_final(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }

    /// The state with this name in a record.
    pub(crate) fn of(name: &str) -> Self {
        JobState::KNOWN.into_iter().find(|state| state.name() == name).unwrap_or(JobState::Unreadable)
    }
}

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Progress {
    /// The share of the work that is done, from 0 to 1.
    pub share: f64,
    /// Steps taken so far (fits with the Adam solver).
    pub step: Option<u32>,
    /// Steps in total (fits with the Adam solver).
    pub steps: Option<u32>,
    /// The loss on the last batch.
    pub loss: Option<f64>,
    /// The penalty at the last step.
    pub penalty: Option<f64>,
    /// Seconds left at the present rate.
    pub seconds_left: Option<f64>,
}

impl Progress {
    /// Adds the share that is done after `seconds`, and from both the time that is left.
    pub(crate) fn with_share(self, share: f64, seconds: f64) -> Self {
        let share = share.min(1.0);
        let seconds_left = (share > 0.0).then(|| seconds * (1.0 - share) / share);
        Progress { share, seconds_left, ..self }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Job {
    /// The job's id.
    pub id: JobId,
    /// The kind of the request: fit, sample, evaluate, loss or simulate.
    pub kind: String,
    /// The job's state.
    pub state: JobState,
    /// The request; null if another version wrote it and this one cannot read it.
    pub request: Option<Request>,
    /// The device that runs or ran the job.
    pub device: Option<String>,
    /// When the job was submitted, in seconds since 1970.
    pub created: f64,
    /// When the job started, in seconds since 1970.
    pub started: Option<f64>,
    /// When the job ended, in seconds since 1970.
    pub finished: Option<f64>,
    /// The progress, while the job runs.
    pub progress: Option<Progress>,
    /// Why the job failed.
    pub error: Option<String>,
    /// The result; its fields depend on the kind.
    #[schema(value_type = Option<Object>)]
    pub result: Option<serde_json::Value>,
    /// Files to download from /v1/jobs/{id}/files/{name}.
    pub files: Vec<String>,
    /// Whose turn it is in the queue.
    #[serde(skip)]
    pub client: String,
    /// Who owns the job.
    #[serde(skip)]
    pub owner: String,
}

impl Job {
    /// A new job, waiting in the queue.
    pub(crate) fn queued(id: JobId, request: Request, client: String, owner: String) -> Job {
        Job {
            id,
            kind: request.kind().into(),
            state: JobState::Queued,
            request: Some(request),
            device: None,
            created: now(),
            started: None,
            finished: None,
            progress: None,
            error: None,
            result: None,
            files: Vec::new(),
            client,
            owner,
        }
    }
}

/// How a job ended, as it goes on record.
pub(crate) struct JobEnd {
    pub id: JobId,
    pub state: JobState,
    pub result: Option<serde_json::Value>,
    pub files: Vec<String>,
    pub error: Option<String>,
}

impl JobEnd {
    pub(crate) fn done(id: JobId, result: serde_json::Value, files: Vec<String>) -> JobEnd {
        JobEnd { id, state: JobState::Done, result: Some(result), files, error: None }
    }

    pub(crate) fn failed(id: JobId, error: String) -> JobEnd {
        JobEnd { id, state: JobState::Failed, result: None, files: Vec::new(), error: Some(error) }
    }

    pub(crate) fn cancelled(id: JobId) -> JobEnd {
        JobEnd { id, state: JobState::Cancelled, result: None, files: Vec::new(), error: None }
    }
}
