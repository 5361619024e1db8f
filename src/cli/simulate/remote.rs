//! `skds simulate` by a service.

use super::Args;
use crate::Result;
use crate::cli::print_report;
use crate::cli::remote::Remote;
use crate::files::output::create_folder;
use crate::serve::{Request, SimulateRequest};

/// The same system by a service.
pub(super) fn run(args: &Args, remote: &Remote) -> Result<()> {
    let settings = args.settings()?;
    settings.check()?;
    let request = Request::Simulate(SimulateRequest { settings: Box::new(settings) });
    let job = remote.run(&request, args.json)?;
    create_folder(&args.output)?;
    // The manifest comes last, as on the command line.
    for name in ["train.npz", "test.npz", "truth.npz", "manifest.json"] {
        remote.fetch(&job, name, &args.output.join(name))?;
    }
    print_report(args.json, &job.result, || format!("written to {}", args.output.display()))
}
