//! Runs an experiment cell by cell. A cell is a method on a dataset; its result is a file, which is never computed twice.

use super::method::PredictionTask;
use super::plan::{DatasetPlace, ExperimentPlan, MethodPlan, Shard};
use crate::data::Dataset;
use crate::evaluate::{Scores, compare_samples, target_means};
use crate::files::output::{create_folder, write_atomically};
use crate::simulate::{self, Simulated};
use crate::{Error, Progress, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How well a method predicted one test intervention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterventionResult {
    /// The test environment.
    pub environment: usize,
    /// The names of the targets.
    pub target: String,
    /// The distances between predicted and observed samples; none if there is no prediction.
    pub scores: Option<Scores>,
    /// Why there is no prediction: the fitted model has no such law.
    pub unstable: Option<String>,
    /// Why there is no prediction: the method itself failed, for example a program that ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A finished cell of an experiment: a method on a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodRun {
    /// The system's name.
    pub system: String,
    /// The dataset's seed.
    pub seed: u64,
    /// The method's name.
    pub method: String,
    /// The settings of system and method. A plan with other settings under the same names does not use this cell.
    pub made_of: String,
    /// The time of the fit in seconds.
    pub fit_seconds: f64,
    /// The time of the predictions in seconds.
    pub predict_seconds: f64,
    /// The results, one per test environment.
    pub rows: Vec<InterventionResult>,
}

/// Receives notes about the cells while an experiment runs.
pub trait Observer: Sync {
    /// The file of a finished cell is damaged, so the cell is computed again.
    fn damaged(&self, path: &Path, problem: &str);
}

/// An experiment and the folder of its cells.
pub struct Runner<'a> {
    /// The plan.
    pub plan: &'a ExperimentPlan,
    /// The folder of the results.
    pub folder: &'a Path,
}

impl Runner<'_> {
    /// The number of cells of a shard.
    pub fn cells(&self, shard: Shard) -> u64 {
        let of = |place: &DatasetPlace| self.plan.methods_for(&self.plan.systems[place.system]).len() as u64;
        self.plan.places(shard).iter().map(of).sum()
    }

    /// Computes the missing cells of a shard. `progress` counts cells.
    pub fn run(&self, shard: Shard, observer: &dyn Observer, progress: &Progress) -> Result<()> {
        create_folder(&self.folder.join("cells"))?;
        self.plan
            .places(shard)
            .into_par_iter()
            .with_max_len(1)
            .map(|place| self.run_dataset(place, observer, progress))
            .collect::<Result<Vec<()>>>()?;
        Ok(())
    }

    fn run_dataset(&self, place: DatasetPlace, observer: &dyn Observer, progress: &Progress) -> Result<()> {
        let system = &self.plan.systems[place.system];
        let mut simulated: Option<Simulated> = None;
        for method in self.plan.methods_for(system) {
            let path = self.path_of(place, method);
            match self.read(place, method) {
                Ok(Some(_)) => {}
                found => {
                    if let Err(problem) = found {
                        observer.damaged(&path, &problem);
                    }
                    // Simulated once for all methods, and only if a cell is missing.
                    let data = match &mut simulated {
                        Some(data) => data,
                        empty => {
                            let settings = simulate::Settings { seed: place.seed, ..system.settings.clone() };
                            empty.insert(simulate::simulate(&settings, &Progress::default())?)
                        }
                    };
                    let cell = self.compute(place, method, data)?;
                    write_atomically(&path, |writer| {
                        serde_json::to_writer_pretty(&mut *writer, &cell)?;
                        writer.write_all(b"\n")
                    })?;
                }
            }
            progress.add(1)?;
        }
        Ok(())
    }

    fn compute(&self, place: DatasetPlace, plan: &MethodPlan, data: &Simulated) -> Result<MethodRun> {
        let Simulated { train, test, .. } = data;
        let tasks: Vec<PredictionTask> = target_means(test)
            .into_iter()
            .enumerate()
            .map(|(e, wanted)| PredictionTask { wanted, rows: test.rows(e).len() })
            .collect();
        let start = Instant::now();
        let method = plan.settings.method(&plan.name);
        let fitted = method.fit(train, place.seed);
        let fit_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let predicted = fitted.and_then(|fitted| fitted.predict(&tasks, place.seed));
        let predict_seconds = start.elapsed().as_secs_f64();
        let rows = match predicted {
            Ok(predicted) => predicted
                .into_iter()
                .enumerate()
                .map(|(e, samples)| row(test, e, samples))
                .collect::<Result<_>>()?,
            // A method that fails on a dataset is part of the results. A wrong plan stops the experiment.
            Err(Error::NonFinite(reason)) => (0..test.environments())
                .map(|e| row(test, e, Err(Error::NonFinite(reason.clone()))))
                .collect::<Result<_>>()?,
            Err(Error::Failed(reason)) => (0..test.environments())
                .map(|e| row(test, e, Err(Error::Failed(reason.clone()))))
                .collect::<Result<_>>()?,
            Err(other) => return Err(other),
        };
        Ok(MethodRun {
            system: self.plan.systems[place.system].name.clone(),
            seed: place.seed,
            method: method.name().into(),
            made_of: self.made_of(place, plan),
            fit_seconds,
            predict_seconds,
            rows,
        })
    }

    fn made_of(&self, place: DatasetPlace, plan: &MethodPlan) -> String {
        let settings = (&self.plan.systems[place.system].settings, plan.settings.settled());
        serde_json::to_string(&settings).expect("settings serialise")
    }

    fn path_of(&self, place: DatasetPlace, method: &MethodPlan) -> PathBuf {
        let name = &self.plan.systems[place.system].name;
        let file = format!("{}.{}.{}.json", plain(name), place.seed, plain(&method.name));
        self.folder.join("cells").join(file)
    }

    /// A finished cell of this plan, if its file exists; an error if the file is damaged.
    fn read(
        &self,
        place: DatasetPlace,
        method: &MethodPlan,
    ) -> std::result::Result<Option<MethodRun>, String> {
        let text = match std::fs::read_to_string(self.path_of(place, method)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let cell: MethodRun = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let expected = self.plan.systems[place.system].settings.test_envs;
        if cell.rows.len() != expected {
            return Err(format!("has {} rows, expected {expected}", cell.rows.len()));
        }
        Ok(Some(cell).filter(|cell| cell.made_of == self.made_of(place, method) && cell.seed == place.seed))
    }

    /// The finished cells in the plan's order, and the number of missing ones.
    pub fn finished(&self) -> (Vec<MethodRun>, usize) {
        let (mut all, mut missing) = (Vec::new(), 0);
        for place in self.plan.places(Shard { number: 1, of: 1 }) {
            for method in self.plan.methods_for(&self.plan.systems[place.system]) {
                match self.read(place, method) {
                    Ok(Some(cell)) => all.push(cell),
                    _ => missing += 1,
                }
            }
        }
        (all, missing)
    }

    /// All cells of the experiment in the plan's order; an error if some are missing.
    pub fn collect(&self) -> Result<Vec<MethodRun>> {
        match self.finished() {
            (all, 0) => Ok(all),
            (all, missing) => Err(Error::invalid(format!(
                "{missing} of {} cells are missing in {}, expected all of them: finish the experiment with all its shards, or ask for \
                 partial results",
                missing + all.len(),
                self.folder.display()
            ))),
        }
    }

    /// Writes `results.csv`, which depends on the plan alone, and `timings.csv`.
    pub fn write_tables(&self, cells: &[MethodRun]) -> Result<()> {
        write_atomically(&self.folder.join("results.csv"), |writer| {
            let mut csv = ::csv::Writer::from_writer(writer);
            csv.write_record([
                "system",
                "seed",
                "method",
                "environment",
                "target",
                "mse",
                "w2",
                "sinkhorn",
                "unstable",
                "failed",
            ])?;
            for cell in cells {
                for row in &cell.rows {
                    let number = |part: fn(&Scores) -> f64| {
                        row.scores.as_ref().map_or(String::new(), |scores| part(scores).to_string())
                    };
                    csv.write_record([
                        &cell.system,
                        &cell.seed.to_string(),
                        &cell.method,
                        &row.environment.to_string(),
                        &row.target,
                        &number(|s| s.mse),
                        &number(|s| s.w2),
                        &number(|s| s.sinkhorn),
                        row.unstable.as_deref().unwrap_or(""),
                        row.failed.as_deref().unwrap_or(""),
                    ])?;
                }
            }
            csv.flush()
        })?;
        write_atomically(&self.folder.join("timings.csv"), |writer| {
            let mut csv = ::csv::Writer::from_writer(writer);
            csv.write_record(["system", "seed", "method", "fit_seconds", "predict_seconds"])?;
            for cell in cells {
                csv.write_record([
                    &cell.system,
                    &cell.seed.to_string(),
                    &cell.method,
                    &cell.fit_seconds.to_string(),
                    &cell.predict_seconds.to_string(),
                ])?;
            }
            csv.flush()
        })
    }
}

fn row(test: &Dataset, e: usize, samples: Result<crate::Matrix<f64>>) -> Result<InterventionResult> {
    let targets: Vec<&str> =
        (0..test.dim()).filter(|&j| test.targets()[(e, j)]).map(|j| test.names()[j].as_str()).collect();
    let target = targets.join(", ");
    let (samples, failed) = match samples {
        Err(Error::Failed(reason)) => {
            return Ok(InterventionResult {
                environment: e,
                target,
                scores: None,
                unstable: None,
                failed: Some(reason),
            });
        }
        samples => (samples, None),
    };
    let (scores, unstable) = compare_samples(test.names(), samples, &test.environment(e))?;
    Ok(InterventionResult { environment: e, target, scores, unstable, failed })
}

/// A name for files: other characters than letters, digits and hyphens become their code, so that names stay distinct.
fn plain(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '-' => text.push(c),
            c => text.push_str(&format!("_{:x}_", u32::from(c))),
        }
    }
    text
}

/// The distinct names in cells, in order of appearance.
pub(super) fn names<'a>(cells: &'a [MethodRun], name: impl Fn(&'a MethodRun) -> &'a str) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    cells.iter().map(name).filter(|name| seen.insert(*name)).collect()
}
