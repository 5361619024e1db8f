//! `skds loss` by a service.

use super::{Args, Precision};
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::serve::{LossRequest, Request};
use crate::{Error, Result};

/// The same loss by a service.
pub(in crate::cli) fn run(args: &Args, remote: &Remote) -> Result<()> {
    if args.repeat.is_some() || args.profile || matches!(args.precision, Precision::F64) {
        return Err(Error::invalid(
            "--repeat, --profile or --precision f64 is given with --server, expected an evaluation in f32",
        ));
    }
    let request = Request::Loss(LossRequest {
        model: remote::id(remote.upload_model(&args.params)?)?,
        dataset: remote::id(remote.upload_dataset(&args.data, args.targets.as_deref())?)?,
        objective: Some(args.objective),
        kernel: Some(args.kernel),
        bandwidth: Some(args.bandwidth),
        estimator: Some(args.estimator),
        gradient: args.grad.is_some(),
        seed: args.seed,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.json)?;
    if let Some(path) = &args.grad {
        remote.fetch(&job, "gradient.safetensors", path)?;
    }
    print_report(args.json, &job.result, || {
        let number = |name: &str| job.result[name].as_f64().unwrap_or(f64::NAN);
        let objective = args.objective.name().to_uppercase();
        format!(
            "{objective} {:.10}\n  kernel     {}, bandwidth {:.6}",
            number("loss"),
            args.kernel,
            number("bandwidth")
        )
    })
}
