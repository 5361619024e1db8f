//! Predictions of a dataset's interventions: the same as `skds evaluate` makes.

use crate::Result;
use crate::evaluate::{Evaluation, check_test_data, predict};
use crate::output::write_atomically;
use crate::sample::SampleSettings;
use crate::serve::request::EvaluateRequest;
use crate::serve::service::Finished;
use crate::serve::store::Progress;
use crate::serve::worker::Work;
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
    let predictions = predict(&sampler, &model, &test, &settings, request.seed, &mut |share| {
        work.report(share, Progress::default());
    })?;
    let evaluation = Evaluation::new(predictions);
    write_atomically(&work.folder()?.join("evaluation.json"), |writer| {
        serde_json::to_writer_pretty(&mut *writer, &evaluation)?;
        writer.write_all(b"\n")
    })?;
    work.finished(json!({ "summary": evaluation.to_text(), "evaluation": evaluation }))
}
