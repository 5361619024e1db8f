//! `skds evaluate` by a service.

use super::{Args, test, train};
use crate::Result;
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::model::Model;
use crate::serve::{EvaluateRequest, Request};

/// The same predictions by a service.
pub(super) fn run(args: &Args, remote: &Remote) -> Result<()> {
    // What is wrong is said before anything is sent.
    let model = Model::read(&args.model)?;
    let (test, train) = (test(args, &model)?, train(args, &model)?);
    let from = args
        .from
        .as_ref()
        .zip(train)
        .map(|(path, train)| remote.upload(&train, path, args.from_targets.as_deref()));
    let request = Request::Evaluate(EvaluateRequest {
        model: remote::id(remote.upload_model(&args.model)?)?,
        dataset: remote::id(remote.upload(&test, &args.test, args.targets.as_deref())?)?,
        from: from.transpose()?.map(remote::id).transpose()?,
        method: args.method,
        nonnegative: args.nonnegative,
        seed: args.seed,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.json)?;
    print_report(args.json, &job.result["evaluation"], || job.result["summary"].as_str().unwrap_or("").into())
}
