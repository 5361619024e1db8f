//! What a job will need, estimated roughly from its request and the records of its data and model, before anything is read.

use super::info::{DatasetInfo, ModelInfo};
use crate::predict::law_samples;

/// A job of fewer operations is short: it takes about a second or two on a processor. Long jobs do not delay short ones.
const SHORT: f64 = 5e10;

/// The memory and the work of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Bytes of memory.
    pub bytes: f64,
    /// Floating-point operations, or anything that takes as long.
    pub operations: f64,
}

impl Estimate {
    pub(crate) fn is_short(&self) -> bool {
        self.operations < SHORT
    }
}

/// The records of what a request refers to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Records<'a> {
    pub dataset: Option<&'a DatasetInfo>,
    /// The data that predictions start from.
    pub origin: Option<&'a DatasetInfo>,
    pub model: Option<&'a ModelInfo>,
}

/// The numbers that estimates are made from.
pub(crate) struct Sizes {
    /// Variables.
    pub d: f64,
    pub rows: f64,
    /// Rows of each environment.
    pub environments: Vec<usize>,
    /// Parameters of the model.
    pub parameters: f64,
    /// Whether the model has a law in closed form.
    pub linear: bool,
    /// The data that predictions start from.
    pub origin: Option<OriginSizes>,
}

/// The size of the data that predictions start from.
pub(crate) struct OriginSizes {
    pub rows: f64,
    /// Rows of its first environment without targets.
    pub moved: f64,
}

impl Records<'_> {
    pub(crate) fn sizes(&self) -> Sizes {
        let Records { dataset, origin, model } = self;
        let names = dataset.map(|data| &data.variables).or(model.map(|model| &model.variables));
        Sizes {
            d: names.map_or(0, Vec::len) as f64,
            rows: dataset.map_or(0, |data| data.rows) as f64,
            environments: dataset.iter().flat_map(|data| &data.environments).map(|e| e.rows).collect(),
            parameters: model.map_or(0, |model| model.parameters) as f64,
            linear: model.is_some_and(|model| model.kind == "linear"),
            origin: origin.map(|origin| OriginSizes {
                rows: origin.rows as f64,
                // Without such an environment the job fails and says so.
                moved: origin.environments.iter().find(|e| e.target_count == 0).map_or(0, |e| e.rows) as f64,
            }),
        }
    }
}

impl Sizes {
    /// Memory for samples in f64 and f32, drift and its derivative, work space.
    pub(crate) fn samples(&self) -> f64 {
        32.0 * self.rows * self.d
    }

    /// Pairs of samples in the same environment.
    pub(crate) fn all_pairs(&self) -> f64 {
        self.environments.iter().map(|n| (*n as f64).powi(2)).sum()
    }

    /// Memory for the data that predictions start from, for two laws and the map between them.
    pub(crate) fn start(&self, exact: bool) -> f64 {
        let Some(origin) = &self.origin else { return 0.0 };
        let drawn = if exact { 0.0 } else { 32.0 * law_samples(self.d as usize) as f64 * self.d };
        32.0 * origin.rows * self.d + 120.0 * self.d * self.d + drawn
    }
}
