//! What clients are told of datasets and models: bounded, whatever the file holds.

use crate::data::Dataset;
use crate::model::Model;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use crate::serve::domain::problem::Problem;
use crate::serve::store::database::{DatasetInfo, EnvironmentInfo, ModelInfo, now};

/// Targets of an environment that are named; their number is always told.
const NAMED: usize = 20;
/// Targets of all environments together that are named.
const NAMED_IN_ALL: usize = 2000;

/// What clients are told of a dataset.
pub fn describe(id: ContentId, name: &str, data: &Dataset, bytes: u64) -> DatasetInfo {
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

/// What clients are told of a model.
pub fn describe_model(id: ContentId, model: &Model) -> ModelInfo {
    ModelInfo {
        id,
        kind: model.parameters.drift.name().into(),
        variables: model.names.clone(),
        environments: model.parameters.shift.as_ref().map_or(0, |shift| shift.rows()),
        parameters: model.parts().iter().flat_map(|part| part.2.tensors()).map(|t| t.values.len()).sum(),
        created: now(),
    }
}

impl Limits {
    /// Names of variables, which every description repeats.
    pub fn check_names<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), Problem> {
        match names.into_iter().find(|name| name.len() > self.name_bytes) {
            Some(long) => {
                let start: String = long.chars().take(20).collect();
                Err(self.over(
                    &format!("the name of the variable '{start}…', in bytes,"),
                    long.len(),
                    self.name_bytes,
                ))
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
        let info = describe(id, "data", &data, 0);
        assert_eq!(info.environments.iter().map(|e| e.targets.len()).sum::<usize>(), NAMED_IN_ALL);
        assert!(info.environments.iter().all(|e| e.target_count == d));
        assert_eq!(info.environments[0].targets.len(), NAMED);
        // All names of all targets would be ten megabytes.
        assert!(serde_json::to_string(&info).unwrap().len() < 500_000);
    }
}
