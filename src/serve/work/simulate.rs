//! Simulated systems, whose data become datasets.

use crate::serve::request::SimulateRequest;
use crate::serve::service::Finished;
use crate::serve::shares::Holder;
use crate::serve::store::Store;
use crate::serve::worker::Work;
use crate::simulate::simulate;
use crate::{Error, Progress, Result};
use serde_json::json;

pub(in crate::serve) fn run(work: &Work<'_>, request: &SimulateRequest) -> Result<Finished> {
    let settings = &request.settings;
    let progress = Progress::default();
    let environments = 1 + settings.train_envs + settings.test_envs;
    let simulated = work.watched(&progress, environments as u64, || simulate(settings, &progress))?;
    simulated.write(&work.folder()?, settings)?;
    let mut ids = Vec::new();
    for (data, part) in [(&simulated.train, "train"), (&simulated.test, "test")] {
        let name = format!("{} {} {} {part}", settings.system, settings.graph, settings.seed);
        let info = work.service.files.keep_dataset(data, &name)?;
        work.service
            .store
            .write_now(Store::keep_dataset(&info, &Holder::Job(work.ticket.id.clone())))
            .map_err(|problem| Error::invalid(problem.sentence))?;
        ids.push(info.id);
    }
    work.finished(json!({ "train": ids[0], "test": ids[1] }))
}
