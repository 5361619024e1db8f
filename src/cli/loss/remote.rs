//! `skds loss` by a service.

use super::{Args, Precision, settings_sentences};
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::fit::ModelLoss;
use crate::model::Model;
use crate::serve::{LossRequest, Request};
use crate::{Error, Result};

/// The same loss by a service, which takes settings from the model's fit as the command does.
pub(super) fn run(args: &Args, remote: &Remote) -> Result<()> {
    let (settings, computation) = (&args.settings, &args.computation);
    if computation.repeat.is_some() || computation.profile || matches!(computation.precision, Precision::F64)
    {
        return Err(Error::invalid(
            "--repeat, --profile or --precision f64 is given with --server, expected an evaluation in f32",
        ));
    }
    let model = Model::read(&args.params)?;
    // Errors about settings come before anything is sent.
    let loss = ModelLoss::new(&model, &settings.given())?;
    let request = Request::Loss(LossRequest {
        model: remote::id(upload_model(args, model, remote)?)?,
        dataset: remote::id(remote.upload_dataset(&args.data, args.targets.as_deref())?)?,
        objective: settings.objective,
        kernel: settings.kernel,
        bandwidth: settings.bandwidth,
        estimator: settings.estimator,
        gradient: args.grad.is_some(),
        seed: computation.seed,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.json)?;
    if let Some(path) = &args.grad {
        remote.fetch(&job, "gradient.safetensors", path)?;
    }
    print_report(args.json, &job.result, || {
        let number = |name: &str| job.result[name].as_f64().unwrap_or(f64::NAN);
        let mut lines = vec![
            format!("{} {:.10}", loss.objective.name().to_uppercase(), number("loss")),
            format!("  kernel     {}, bandwidth {:.6}", loss.kernel, number("bandwidth")),
        ];
        lines.extend(settings_sentences(&loss.from_model, loss.is_standardized()));
        lines.join("\n")
    })
}

/// Uploads the model; without the units of its fit, if data stays as it is.
fn upload_model(args: &Args, model: Model, remote: &Remote) -> Result<String> {
    if !args.settings.no_standardize || model.reference.is_none() {
        return remote.upload_model(&args.params);
    }
    let folder = tempfile::tempdir().map_err(|source| Error::Io {
        action: "create",
        path: "a folder".into(),
        source,
    })?;
    let path = folder.path().join("model.safetensors");
    Model { reference: None, ..model }.save(&path)?;
    remote.upload_model(&path)
}
