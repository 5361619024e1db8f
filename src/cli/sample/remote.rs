//! `skds sample` by a service.

use super::{Args, Report, assignments, check, from, start_from, summary, treatment, write};
use crate::cli::print_report;
use crate::cli::remote::{self, Remote};
use crate::data::{DataFormat, Dataset};
use crate::model::Model;
use crate::sample::SampleSettings;
use crate::serve::{Request, SampleRequest};
use crate::{Error, Result};
use std::time::Instant;

/// The same samples by a service.
pub(super) fn run(args: &Args, remote: &Remote) -> Result<()> {
    let model = Model::read(&args.model)?;
    if let Some(path) = &args.output {
        DataFormat::of(path, &model.names)?;
    }
    // What is wrong is said before anything is sent.
    check(args)?;
    if !args.intervention.perturb.is_empty() {
        return Err(Error::invalid("--perturb is given with --server, expected none: run it here"));
    }
    let treatment = treatment(args, &model)?;
    let start_from = start_from(args, &model)?;
    let origin = args.data.from.as_ref().map(|path| {
        let data = args.cells.read_start(path, args.data.from_targets.as_deref(), &model)?;
        remote.upload(&data, path, args.data.from_targets.as_deref())
    });
    let (intervention, simulation) = (&args.intervention, &args.simulation);
    let request = Request::Sample(SampleRequest {
        model: remote::id(remote.upload_model(&args.model)?)?,
        n: args.n,
        from: origin.transpose()?.map(remote::id).transpose()?,
        env: intervention.env,
        shift: assignments("--shift", &intervention.shift)?,
        scale: assignments("--scale", &intervention.scale)?,
        set: assignments("--set", &intervention.set)?,
        method: simulation.method,
        dt: Some(simulation.dt),
        burn_in: Some(simulation.burn_in),
        thin: Some(simulation.thin),
        chains: simulation.chains,
        nonnegative: simulation.nonnegative,
        seed: args.seed,
        device: remote::device(&args.device.device),
    });
    let start = Instant::now();
    let job = remote.run(&request, args.json)?;
    let folder = tempfile::tempdir().map_err(|source| Error::Io {
        action: "create",
        path: "a folder".into(),
        source,
    })?;
    let fetched = folder.path().join("samples.npz");
    remote.fetch(&job, "samples.npz", &fetched)?;
    let data = Dataset::read(&fetched)?;
    let method =
        SampleSettings { method: simulation.method, ..SampleSettings::default() }.method_for(&model)?;
    let report = Report {
        n: data.samples().rows(),
        method: method.name(),
        device: "the service".into(),
        seed: args.seed,
        from: from(args, &start_from),
        variables: summary(data.samples(), &model.names),
        seconds: start.elapsed().as_secs_f64(),
        output: args.output.clone(),
    };
    if let Some(path) = &args.output {
        write(data.samples().clone(), &model, &treatment, path)?;
    }
    print_report(args.json, &report, || report.to_text(args.output.as_deref()))
}
