//! Predictions of a dataset's interventions: the same as `skds evaluate` makes.

use super::Task;
use crate::evaluate::{check_test_data, evaluate, evaluation_progress};
use crate::files::output::write_atomically;
use crate::sample::SampleSettings;
use crate::serve::domain::message::Done;
use crate::serve::domain::request::EvaluateRequest;
use crate::{Progress, Result};
use serde_json::json;
use std::io::Write;

pub(super) fn run(task: &Task<'_>, request: &EvaluateRequest) -> Result<Done> {
    let (model, test, train) = (task.model()?, task.dataset()?, task.origin()?);
    check_test_data(&model, &test)?;
    let settings = SampleSettings {
        method: request.method,
        nonnegative: request.nonnegative,
        ..SampleSettings::default()
    };
    let sampler = task.sampler();
    let progress = Progress::default();
    let evaluation = task.watched(&progress, evaluation_progress(train.is_some()), || {
        evaluate(&sampler, &model, &test, train.as_deref(), &settings, request.seed, &progress)
    })?;
    write_atomically(&task.folder()?.join("evaluation.json"), |writer| {
        serde_json::to_writer_pretty(&mut *writer, &evaluation)?;
        writer.write_all(b"\n")
    })?;
    Ok(Done::new(json!({ "summary": evaluation.to_text(), "evaluation": evaluation })))
}
