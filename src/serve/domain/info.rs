//! What clients see of datasets and models. Its size is bounded, whatever the file holds.

use super::error::ServiceError;
use super::id::ContentId;
use super::limits::Limits;
use super::now;
use crate::data::Dataset;
use crate::model::Model;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most targets of an environment that are named; their number is always given.
const NAMED: usize = 20;
/// The most targets of all environments together that are named.
const NAMED_IN_ALL: usize = 2000;

/// A dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct DatasetInfo {
    /// The hash of the uploaded file.
    pub id: ContentId,
    /// The name that its first uploader gave it.
    pub name: String,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// The number of samples in all environments.
    pub rows: usize,
    /// The names of the variables.
    pub variables: Vec<String>,
    /// The environments, in the order of the file.
    pub environments: Vec<EnvironmentInfo>,
    /// When it was uploaded, in seconds since 1970.
    pub created: f64,
}

/// An environment of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct EnvironmentInfo {
    /// The number of samples.
    pub rows: usize,
    /// The variables that are intervened on; only the first ones if there are many.
    pub targets: Vec<String>,
    /// The number of variables that are intervened on.
    #[serde(default)]
    pub target_count: usize,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ModelInfo {
    /// The hash of its file.
    pub id: ContentId,
    /// The family of the drift: linear, mlp or basis.
    pub kind: String,
    /// The names of the variables.
    pub variables: Vec<String>,
    /// The number of training environments whose interventions it holds.
    pub environments: usize,
    /// The number of fitted parameters.
    pub parameters: usize,
    /// When it was made or uploaded, in seconds since 1970.
    pub created: f64,
}

impl DatasetInfo {
    /// Describes a dataset whose file has so many bytes.
    pub(crate) fn of(id: ContentId, name: &str, data: &Dataset, bytes: u64) -> DatasetInfo {
        let mut left = NAMED_IN_ALL;
        let environment = |e: usize| {
            let own = || (0..data.dim()).filter(move |&j| data.targets()[(e, j)]);
            let targets: Vec<String> = own().take(NAMED.min(left)).map(|j| data.names()[j].clone()).collect();
            left -= targets.len();
            EnvironmentInfo { rows: data.rows(e).len(), targets, target_count: own().count() }
        };
        DatasetInfo {
            id,
            name: name.into(),
            bytes,
            rows: data.samples().rows(),
            variables: data.names().to_vec(),
            environments: (0..data.environments()).map(environment).collect(),
            created: now(),
        }
    }
}

impl ModelInfo {
    /// Describes a model.
    pub(crate) fn of(id: ContentId, model: &Model) -> ModelInfo {
        ModelInfo {
            id,
            kind: model.parameters.drift.name().into(),
            variables: model.names.clone(),
            environments: model.parameters.shift.as_ref().map_or(0, |shift| shift.rows()),
            parameters: model.parts().iter().flat_map(|part| part.2.tensors()).map(|t| t.values.len()).sum(),
            created: now(),
        }
    }
}

impl Limits {
    /// Checks the names of variables, which every description repeats.
    pub(in crate::serve) fn check_names<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ServiceError> {
        match names.into_iter().find(|name| name.len() > self.name_bytes) {
            Some(long) => {
                let start: String = long.chars().take(20).collect();
                let what = format!("the name of the variable '{start}…', in bytes,");
                Err(Limits::exceeded(&what, long.len(), self.name_bytes))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;

    #[test]
    fn a_description_is_bounded_whatever_the_targets() {
        let (d, environments) = (100, 500);
        let all = (0..environments).map(|e| Matrix::from_fn(2, d, |i, j| (e + i + j) as f64)).collect();
        let names = (0..d).map(|j| format!("{j}{}", "x".repeat(190))).collect();
        let data = Dataset::from_environments(all).unwrap();
        let data = data.with_targets(Matrix::full(environments, d, true)).unwrap().with_names(names).unwrap();
        let id = ContentId::try_from("a".repeat(64)).unwrap();
        let info = DatasetInfo::of(id, "data", &data, 0);
        assert_eq!(info.environments.iter().map(|e| e.targets.len()).sum::<usize>(), NAMED_IN_ALL);
        assert!(info.environments.iter().all(|e| e.target_count == d));
        assert_eq!(info.environments[0].targets.len(), NAMED);
        // All names of all targets would be ten megabytes.
        assert!(serde_json::to_string(&info).unwrap().len() < 500_000);
    }
}
