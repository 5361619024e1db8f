//! What the service and a process for jobs say to each other: one line of JSON each.

use crate::serve::domain::job::Progress;
use crate::serve::domain::kinds::task::{Assignment, Outcome};
use serde::{Deserialize, Serialize};

/// From the service to the process.
#[derive(Serialize, Deserialize)]
pub(super) enum Order {
    /// Do this job.
    Do(Box<Assignment>),
    /// Stop the job that is running.
    Stop,
}

/// From the process to the service.
#[derive(Serialize, Deserialize)]
pub(super) enum Message {
    /// The process has started. A job may use so many bytes; without a number, there is no limit.
    Ready { memory: Option<u64> },
    /// The progress of the job.
    Progress(Progress),
    /// A line of the job's log.
    Log(String),
    /// The job has ended.
    Ended {
        outcome: Outcome,
        /// Whether the process ends now, too.
        last: bool,
    },
}
