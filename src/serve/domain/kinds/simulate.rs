//! Jobs that simulate systems, whose data become datasets: the same files as from `skds simulate`.

use super::task::{JobOutput, Task};
use super::{Execution, Kind, ProcessKind};
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::DatasetInfo;
use crate::serve::domain::limits::Limits;
use crate::simulate::{self, simulate};
use crate::{Error, Progress};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The same simulation as by `skds simulate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulateRequest {
    /// Settings under the names that a manifest has. Settings that are left out keep their defaults.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub settings: Box<simulate::Settings>,
}

impl Kind for SimulateRequest {
    fn check(&self) -> Result<(), ServiceError> {
        Ok(self.settings.check()?)
    }

    fn check_against(&self, _records: &Records<'_>, limits: &Limits) -> Result<(), ServiceError> {
        limits.check_variables(self.settings.dim)
    }

    fn estimate(&self, _records: &Records<'_>) -> Estimate {
        Estimate { bytes: self.settings.bytes(), operations: self.settings.operations() }
    }

    fn execution(&self) -> Execution<'_> {
        Execution::InProcess(self)
    }

    fn summary(request: &Value) -> String {
        let settings = &request["settings"];
        let system = settings["system"].as_str().unwrap_or("sde");
        format!("{system}, {} variables", settings["dim"].as_u64().unwrap_or(20))
    }

    fn default_settings() -> Option<Value> {
        Some(serde_json::to_value(simulate::Settings::default()).expect("settings serialise"))
    }
}

impl ProcessKind for SimulateRequest {
    fn run(&self, task: &Task<'_>) -> crate::Result<JobOutput> {
        let settings = &self.settings;
        let progress = Progress::default();
        let simulated =
            task.supervised(&progress, settings.environments() as u64, || simulate(settings, &progress))?;
        let folder = task.folder()?;
        simulated.write(folder, settings)?;
        let mut datasets = Vec::new();
        for (data, part) in [(&simulated.train, "train"), (&simulated.test, "test")] {
            let file = format!("{part}.npz");
            let path = folder.join(&file);
            let bytes = std::fs::metadata(&path).map_err(|source| Error::Io {
                action: "read",
                path: path.clone(),
                source,
            })?;
            let name = format!("{} {} {} {part}", settings.system, settings.graph, settings.seed);
            datasets.push((file, DatasetInfo::of(ContentId::of_file(&path)?, &name, data, bytes.len())));
        }
        let result = json!({ "train": datasets[0].1.id, "test": datasets[1].1.id });
        Ok(JobOutput { datasets, ..JobOutput::new(result) })
    }
}
