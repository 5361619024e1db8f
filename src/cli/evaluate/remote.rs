//! `skds evaluate` by a service.

use super::{Args, train};
use crate::Result;
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::model::Model;
use crate::serve::{EvaluateRequest, Request};

/// The same predictions by a service.
pub(super) fn run(args: &Args, remote: &Remote) -> Result<()> {
    // What is wrong is said before anything is sent.
    train(args, &Model::read(&args.model)?)?;
    let from = args.from.as_ref().map(|from| remote.upload_dataset(from, args.from_targets.as_deref()));
    let request = Request::Evaluate(EvaluateRequest {
        model: remote::id(remote.upload_model(&args.model)?)?,
        dataset: remote::id(remote.upload_dataset(&args.test, args.targets.as_deref())?)?,
        from: from.transpose()?.map(remote::id).transpose()?,
        method: args.method,
        nonnegative: args.nonnegative,
        seed: args.seed,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.json)?;
    print_report(args.json, &job.result["evaluation"], || job.result["summary"].as_str().unwrap_or("").into())
}
