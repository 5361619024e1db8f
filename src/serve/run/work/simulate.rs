//! Simulated systems, whose data become datasets.

use super::Task;
use crate::serve::domain::describe::describe;
use crate::serve::domain::message::Done;
use crate::serve::domain::request::SimulateRequest;
use crate::serve::store::files::hash_of;
use crate::simulate::simulate;
use crate::{Error, Progress, Result};
use serde_json::json;

pub(super) fn run(task: &Task<'_>, request: &SimulateRequest) -> Result<Done> {
    let settings = &request.settings;
    let progress = Progress::default();
    let simulated =
        task.watched(&progress, settings.environments() as u64, || simulate(settings, &progress))?;
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
        datasets.push((file, describe(hash_of(&path)?, &name, data, bytes.len())));
    }
    let result = json!({ "train": datasets[0].1.id, "test": datasets[1].1.id });
    Ok(Done { datasets, ..Done::new(result) })
}
