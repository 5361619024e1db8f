//! Jobs that predict the interventions of a dataset: the same numbers as from `skds evaluate`.

use super::task::{JobOutput, Task};
use super::{Execution, Kind, ProcessKind, References, auto_method};
use crate::Progress;
use crate::evaluate::{check_test_data, evaluate, evaluation_progress};
use crate::files::output::write_atomically;
use crate::named::by_name;
use crate::sample::{Method, SampleSettings};
use crate::serve::domain::estimate::{Estimate, Records};
use crate::serve::domain::id::ContentId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::Write;
use utoipa::ToSchema;

/// The same evaluation as by `skds evaluate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateRequest {
    /// The model that predicts.
    pub model: ContentId,
    /// The test data.
    pub dataset: ContentId,
    /// The training data. Its observational rows are moved and compared, too, beside floors that need no model.
    #[serde(default)]
    pub from: Option<ContentId>,
    /// exact, euler or auto.
    #[serde(default = "auto_method", with = "by_name")]
    #[schema(value_type = String)]
    pub method: Method,
    /// Simulation: hold every variable at or above 0.
    #[serde(default)]
    pub nonnegative: bool,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// A part of the name of the device to use; any device if left out.
    #[serde(default)]
    pub device: Option<String>,
}

impl Kind for EvaluateRequest {
    fn references(&self) -> References<'_> {
        References { dataset: Some(&self.dataset), origin: self.from.as_ref(), model: Some(&self.model) }
    }

    fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    fn estimate(&self, records: &Records<'_>) -> Estimate {
        let sizes = records.sizes();
        // Distances between all samples of an environment and as many predicted ones, three times; matching them. Rows that
        // are moved are compared as well, and so are two floors.
        let most = sizes.environments.iter().max().map_or(0.0, |n| *n as f64);
        let simulated = !sizes.linear || self.method == Method::Euler || self.nonnegative;
        let predictions = if sizes.origin.is_some() { 4.0 } else { 1.0 };
        let operations = if simulated {
            f64::INFINITY
        } else {
            predictions * (sizes.all_pairs() * (4.0 * sizes.d + 2000.0) + 60.0 * sizes.d.powi(3))
        };
        // Maps of laws that are simulated have a matrix for each environment.
        let maps =
            if simulated && sizes.origin.is_some() { 16.0 * sizes.environments.len() as f64 } else { 0.0 };
        let moved = sizes.origin.as_ref().map_or(0.0, |origin| 32.0 * origin.moved * sizes.d);
        let start = sizes.start(!simulated) + moved + maps * sizes.d * sizes.d;
        Estimate { bytes: sizes.samples() + 32.0 * most * most + start, operations }
    }

    fn execution(&self) -> Execution<'_> {
        Execution::InProcess(self)
    }
}

impl ProcessKind for EvaluateRequest {
    fn run(&self, task: &Task<'_>) -> crate::Result<JobOutput> {
        let (model, test, train) = (task.model()?, task.dataset()?, task.origin()?);
        check_test_data(&model, &test)?;
        let settings = SampleSettings {
            method: self.method,
            nonnegative: self.nonnegative,
            ..SampleSettings::default()
        };
        let sampler = task.sampler();
        let progress = Progress::default();
        let evaluation = task.supervised(&progress, evaluation_progress(train.is_some()), || {
            evaluate(&sampler, &model, &test, train.as_deref(), &settings, self.seed, &progress)
        })?;
        write_atomically(&task.folder()?.join("evaluation.json"), |writer| {
            serde_json::to_writer_pretty(&mut *writer, &evaluation)?;
            writer.write_all(b"\n")
        })?;
        Ok(JobOutput::new(json!({ "summary": evaluation.to_text(), "evaluation": evaluation })))
    }
}
