//! What a service and the process that does its jobs say to each other: one line of JSON each.

use crate::serve::domain::request::Request;
use crate::serve::store::database::{DatasetInfo, ModelInfo, Progress};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// From the service.
#[derive(Serialize, Deserialize)]
pub enum Order {
    /// Do this.
    Do(Box<Assignment>),
    /// Stop what you are doing.
    Stop,
}

/// A job, with everything that its process needs to know. Paths are relative to the service's folder, in which the process
/// runs.
#[derive(Serialize, Deserialize)]
pub struct Assignment {
    pub request: Request,
    /// The job's own folder.
    pub folder: PathBuf,
    pub dataset: Option<PathBuf>,
    /// The data that predictions start from.
    pub origin: Option<PathBuf>,
    pub model: Option<PathBuf>,
}

/// From the process.
#[derive(Serialize, Deserialize)]
pub enum Said {
    /// It has started and may use so many bytes for a job, or as many as it likes.
    Ready { memory: Option<u64> },
    /// The job is further.
    Progress(Progress),
    /// The job says something.
    Log(String),
    /// The job has ended.
    Ended {
        outcome: Outcome,
        /// Whether the process ends with it.
        last: bool,
    },
}

/// How a job ended.
#[derive(Serialize, Deserialize)]
pub enum Outcome {
    /// With a result.
    Done(Box<Done>),
    /// With a sentence for clients.
    Failed(String),
    /// Because it was told to stop.
    Stopped,
}

/// What a job found, and which files in its folder are to be kept as models and datasets.
#[derive(Serialize, Deserialize)]
pub struct Done {
    pub result: serde_json::Value,
    pub model: Option<(String, ModelInfo)>,
    pub datasets: Vec<(String, DatasetInfo)>,
}

impl Done {
    /// A result alone.
    pub fn new(result: serde_json::Value) -> Self {
        Done { result, model: None, datasets: Vec::new() }
    }
}
