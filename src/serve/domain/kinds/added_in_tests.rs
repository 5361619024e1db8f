//! A kind of job that exists in tests only. It shows what adding one takes: this module and its line in the list of kinds.

use super::task::{JobOutput, Task};
use super::{Execution, Kind, ProcessKind, References};
use crate::files::output::write_atomically;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Write;
use utoipa::ToSchema;

/// Counts the rows of each environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CountRowsRequest {
    /// The dataset to count.
    pub dataset: ContentId,
    /// Leave out environments with fewer rows.
    #[serde(default)]
    pub least: usize,
}

impl Kind for CountRowsRequest {
    fn check(&self) -> Result<(), ServiceError> {
        match self.least {
            0..=1000 => Ok(()),
            least => Err(ServiceError::invalid(format!("least is {least}, expected at most 1000"))),
        }
    }

    fn references(&self) -> References<'_> {
        References { dataset: Some(&self.dataset), ..References::default() }
    }

    fn check_against(&self, records: &Records<'_>, limits: &Limits) -> Result<(), ServiceError> {
        limits.check_environments(records.dataset.map_or(0, |data| data.environments.len()))
    }

    fn estimate(&self, records: &Records<'_>) -> Estimate {
        let sizes = records.sizes();
        Estimate { bytes: sizes.samples(), operations: sizes.rows }
    }

    fn execution(&self) -> Execution<'_> {
        Execution::InProcess(self)
    }

    fn summary(request: &Value) -> String {
        format!("at least {} rows", request["least"].as_u64().unwrap_or(0))
    }
}

impl ProcessKind for CountRowsRequest {
    fn run(&self, task: &Task<'_>) -> crate::Result<JobOutput> {
        let data = task.dataset()?;
        let rows: Vec<usize> = (0..data.environments()).map(|e| data.rows(e).len()).collect();
        let rows: Vec<usize> = rows.into_iter().filter(|rows| *rows >= self.least).collect();
        write_atomically(&task.folder()?.join("rows.txt"), |writer| writeln!(writer, "{rows:?}"))?;
        task.log(format!("counted {} environments", rows.len()));
        Ok(JobOutput::new(json!({ "rows": rows })))
    }
}
