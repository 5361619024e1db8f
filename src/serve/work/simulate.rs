//! Simulated systems, whose data become datasets.

use crate::serve::request::SimulateRequest;
use crate::serve::service::Finished;
use crate::serve::store::Progress;
use crate::serve::worker::Work;
use crate::simulate::simulate;
use crate::{Error, Result};
use serde_json::json;
use std::sync::atomic::AtomicU64;

pub(in crate::serve) fn run(work: &Work<'_>, request: &SimulateRequest) -> Result<Finished> {
    let settings = &request.settings;
    let simulated = simulate(settings, &AtomicU64::new(0))?;
    work.report(0.9, Progress::default());
    simulated.write(&work.folder()?, settings)?;
    let mut ids = Vec::new();
    for (data, part) in [(&simulated.train, "train"), (&simulated.test, "test")] {
        let name = format!("{} {} {} {part}", settings.system, settings.graph, settings.seed);
        let info = work.service.files.keep_dataset(data, &name)?;
        let row = (
            info.id.as_str().to_owned(),
            serde_json::to_string(&info).expect("infos serialise"),
            info.created,
        );
        work.service
            .store
            .write_now(move |db| {
                db.execute("INSERT OR IGNORE INTO datasets (id, info, created) VALUES (?1, ?2, ?3)", row)?;
                Ok(())
            })
            .map_err(|problem| Error::invalid(problem.sentence))?;
        ids.push(info.id);
    }
    work.finished(json!({ "train": ids[0], "test": ids[1] }))
}
