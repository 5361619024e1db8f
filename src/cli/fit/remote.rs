//! `skds fit` by a service.

use super::{Args, check_output, read};
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::fit::Knowledge;
use crate::serve::{FitRequest, Request};
use crate::{Error, Result};

/// The same fit by a service; its files are brought here under the same names.
pub(super) fn run(args: &Args, remote: &Remote) -> Result<()> {
    let settings = args.settings()?;
    check_output(&args.output.file)?;
    if args.adam.resume {
        return Err(Error::invalid(
            "--resume is given with --server, expected none: a server continues fits by itself",
        ));
    }
    let recipe = settings.settle()?;
    let data = read(args, &recipe)?;
    let edges = match &args.data.edges {
        Some(path) => Knowledge::read(path, data.names())?.edges().to_vec(),
        None => Vec::new(),
    };
    let dataset = remote.upload(&data, &args.data.path, args.targets_file(&recipe))?;
    let request = Request::Fit(FitRequest {
        dataset: remote::id(dataset)?,
        settings: Box::new(settings),
        edges,
        bootstrap: args.choice.bootstrap,
        device: remote::device(&args.device.device),
    });
    let job = remote.run(&request, args.output.json)?;
    // The model comes last: where it is, everything is.
    for name in &job.files {
        // The service has made pictures and graphs too, which are commands of their own here.
        let Some(ending) = name.strip_prefix("model.").filter(|ending| *ending != "safetensors") else {
            continue;
        };
        remote.fetch(&job, name, &args.output.file.with_extension(ending))?;
    }
    remote.fetch_model(&job, &data, &args.output.file)?;
    print_report(args.output.json, &job.result, || {
        let summary = job.result["summary"].as_str().unwrap_or("");
        format!("{summary}\nThe model is in {}.", args.output.file.display())
    })
}
