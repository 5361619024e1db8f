//! Predictions of a dataset's interventions: the same as `skds evaluate` makes.

use crate::evaluate::{Evaluation, PREDICTED, check_test_data, predict};
use crate::output::write_atomically;
use crate::sample::SampleSettings;
use crate::serve::request::EvaluateRequest;
use crate::serve::service::Finished;
use crate::serve::worker::Work;
use crate::{Progress, Result};
use serde_json::json;
use std::io::Write;

pub(in crate::serve) fn run(work: &Work<'_>, request: &EvaluateRequest) -> Result<Finished> {
    let model = work.service.model(&request.model)?;
    let test = work.service.dataset(&request.dataset)?;
    check_test_data(&model, &test)?;
    let settings = SampleSettings {
        method: request.method,
        nonnegative: request.nonnegative,
        ..SampleSettings::default()
    };
    let sampler = work.sampler();
    let progress = Progress::default();
    let predictions = work.watched(&progress, PREDICTED, || {
        predict(&sampler, &model, &test, &settings, request.seed, &progress)
    })?;
    let evaluation = Evaluation::new(predictions);
    write_atomically(&work.folder()?.join("evaluation.json"), |writer| {
        serde_json::to_writer_pretty(&mut *writer, &evaluation)?;
        writer.write_all(b"\n")
    })?;
    work.finished(json!({ "summary": evaluation.to_text(), "evaluation": evaluation }))
}
