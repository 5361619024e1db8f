//! `skds fit` by a service.

use super::{Args, check_output};
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::data::Dataset;
use crate::fit::{Knowledge, TargetChoice};
use crate::serve::{FitRequest, Request};
use crate::{Error, Result};

/// The same fit by a service; its files are brought here under the same names.
pub(in crate::cli) fn run(args: &Args, remote: &Remote) -> Result<()> {
    let settings = args.settings()?;
    check_output(&args.output)?;
    if args.resume {
        return Err(Error::invalid("--resume is given with --server, which goes on by itself"));
    }
    let unknown = settings.settle()?.targets == TargetChoice::Unknown;
    let targets = args.targets.as_deref().filter(|_| !unknown);
    let data = Dataset::read_files(&args.data, targets)?;
    let edges = match &args.edges {
        Some(path) => Knowledge::read(path, data.names())?.edges().to_vec(),
        None => Vec::new(),
    };
    let dataset = remote.upload(&data, &args.data, targets)?;
    let request = Request::Fit(FitRequest {
        dataset: remote::id(dataset)?,
        settings: Box::new(settings),
        edges,
        bootstrap: args.bootstrap,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.json)?;
    // The model comes last: where it is, everything is.
    for name in &job.files {
        // The service has made pictures and graphs too, which are commands of their own here.
        let Some(ending) = name.strip_prefix("model.").filter(|ending| *ending != "safetensors") else {
            continue;
        };
        remote.fetch(&job, name, &args.output.with_extension(ending))?;
    }
    remote.fetch(&job, "model.safetensors", &args.output)?;
    print_report(args.json, &job.result, || {
        let summary = job.result["summary"].as_str().unwrap_or("");
        format!("{summary}\nwritten to {}", args.output.display())
    })
}
