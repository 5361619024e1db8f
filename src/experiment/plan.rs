//! The plan of an experiment, systems × seeds × methods, from a TOML file.

use super::method::MethodSettings;
use crate::files::input;
use crate::{Error, Result, simulate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The most datasets of a system: each has a file for every method.
const MOST_DATASETS: u64 = 1_000_000;
/// The most systems, methods or published results: all are compared with each other.
const MOST_ENTRIES: usize = 1000;

/// The systems, seeds and methods of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentPlan {
    /// The number of datasets of each system.
    pub datasets: u64,
    /// The seed of the first dataset. The others follow.
    #[serde(default)]
    pub first_seed: u64,
    /// The systems.
    #[serde(rename = "system")]
    pub systems: Vec<SystemPlan>,
    /// The methods.
    #[serde(rename = "method")]
    pub methods: Vec<MethodPlan>,
    /// Published results, which tables show beside the experiment's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// The published medians of a method, which need not be one of the plan's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The method's name.
    pub method: String,
    /// Mean squared errors of means, by system.
    #[serde(default)]
    pub mse: BTreeMap<String, f64>,
    /// Squared 2-Wasserstein distances, by system.
    #[serde(default)]
    pub w2: BTreeMap<String, f64>,
}

/// A named system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemPlan {
    /// The name in tables.
    pub name: String,
    /// The settings of the simulation. The dataset replaces the seed.
    pub settings: simulate::Settings,
}

/// A named method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodPlan {
    /// The name in tables. Several entries may share a name if they are for different systems.
    pub name: String,
    /// The systems to run it on; all systems if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// The kind of method and its settings.
    #[serde(flatten)]
    pub settings: MethodSettings,
}

/// One dataset of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetPlace {
    /// The index of the system.
    pub system: usize,
    /// The dataset's seed.
    pub seed: u64,
}

/// A part of an experiment: the I-th of N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of this part, from 1.
    pub number: usize,
    /// The number of parts.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('/').map(|(number, of)| (number.parse(), of.parse())) {
            Some((Ok(number), Ok(of))) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(Error::invalid(format!(
                "the shard is '{text}', expected I/N with I from 1 to N, like 2/8"
            ))),
        }
    }
}

impl ExperimentPlan {
    /// Reads and checks a TOML file.
    pub fn read(path: &Path) -> Result<ExperimentPlan> {
        let plan: ExperimentPlan = input::toml(path)?;
        plan.check().map_err(|error| Error::file(path, error.to_string()))?;
        Ok(plan)
    }

    fn check(&self) -> Result<()> {
        if self.datasets == 0 || self.systems.is_empty() || self.methods.is_empty() {
            return Err(Error::invalid("has no datasets, systems or methods, expected at least one of each"));
        }
        if self.datasets > MOST_DATASETS || self.first_seed.checked_add(self.datasets).is_none() {
            return Err(Error::invalid(format!(
                "has {} datasets with seeds from {}, expected at most {MOST_DATASETS} datasets and seeds below 2^64",
                self.datasets, self.first_seed
            )));
        }
        let most = self.systems.len().max(self.methods.len()).max(self.published.len());
        if most > MOST_ENTRIES {
            return Err(Error::invalid(format!(
                "has {most} systems, methods or published results, expected at most {MOST_ENTRIES} of each"
            )));
        }
        for (k, system) in self.systems.iter().enumerate() {
            if self.systems[..k].iter().any(|other| other.name == system.name) {
                return Err(Error::invalid(format!("has the system '{}' twice", system.name)));
            }
            system.settings.check()?;
        }
        let unknown = |method: &str, name: &String| match self.systems.iter().any(|s| s.name == *name) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "has the method '{method}' for the system '{name}', which it does not have"
            ))),
        };
        for method in &self.methods {
            method.systems.iter().try_for_each(|name| unknown(&method.name, name))?;
            method.settings.check()?;
        }
        for Published { method, mse, w2 } in &self.published {
            mse.keys().chain(w2.keys()).try_for_each(|name| unknown(method, name))?;
            if let Some(value) = mse.values().chain(w2.values()).find(|v| !(**v > 0.0 && v.is_finite())) {
                return Err(Error::invalid(format!(
                    "has {value} as a published median of '{method}', expected a number above 0"
                )));
            }
        }
        for system in &self.systems {
            let methods = self.methods_for(system);
            if let Some(twice) = methods
                .iter()
                .enumerate()
                .find(|(k, m)| methods[..*k].iter().any(|other| other.name == m.name))
            {
                return Err(Error::invalid(format!(
                    "has the method '{}' twice for the system '{}'",
                    twice.1.name, system.name
                )));
            }
        }
        Ok(())
    }

    /// The same plan with only the first datasets of each system, if a number is given.
    pub fn with_datasets(self, first: Option<u64>) -> Result<ExperimentPlan> {
        match first {
            None => Ok(self),
            Some(count) if (1..=self.datasets).contains(&count) => {
                Ok(ExperimentPlan { datasets: count, ..self })
            }
            Some(count) => Err(Error::invalid(format!(
                "asked for {count} datasets of each system, expected 1 to {} as in the plan",
                self.datasets
            ))),
        }
    }

    /// The methods to run on a system, in the plan's order.
    pub fn methods_for(&self, system: &SystemPlan) -> Vec<&MethodPlan> {
        self.methods.iter().filter(|m| m.systems.is_empty() || m.systems.contains(&system.name)).collect()
    }

    /// The datasets of a shard, system after system.
    pub fn places(&self, shard: Shard) -> Vec<DatasetPlace> {
        let all = (0..self.systems.len()).flat_map(|system| {
            (0..self.datasets).map(move |k| DatasetPlace { system, seed: self.first_seed + k })
        });
        all.enumerate().filter(|(k, _)| k % shard.of == shard.number - 1).map(|(_, place)| place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_that_ship_are_valid() {
        for name in ["paper", "quick"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("experiments/{name}.toml"));
            let plan = ExperimentPlan::read(&path).unwrap();
            for system in &plan.systems {
                assert!(plan.methods_for(system).len() >= 5, "{name} {}", system.name);
            }
        }
    }

    #[test]
    fn shards_are_the_whole_and_do_not_overlap() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/paper.toml");
        let plan = ExperimentPlan::read(&path).unwrap();
        let whole = plan.places(Shard { number: 1, of: 1 });
        assert_eq!(whole.len() as u64, plan.datasets * plan.systems.len() as u64);
        let mut parts: Vec<_> = (1..=7).flat_map(|number| plan.places(Shard { number, of: 7 })).collect();
        parts.sort_by_key(|place| (place.system, place.seed));
        assert_eq!(parts, whole);
        let few = plan.clone().with_datasets(Some(2)).unwrap();
        assert_eq!(few.places(Shard { number: 1, of: 1 }).len(), 2 * plan.systems.len());
        assert!(
            plan.clone().with_datasets(Some(0)).is_err() && plan.clone().with_datasets(Some(51)).is_err()
        );
        assert_eq!("2/3".parse::<Shard>().unwrap(), Shard { number: 2, of: 3 });
        assert!(["0/3", "4/3", "1", "a/b", "1/0"].iter().all(|text| text.parse::<Shard>().is_err()));
    }
}
