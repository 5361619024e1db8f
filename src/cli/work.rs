//! `skds work`: a process of a service, which does its jobs. Not for people.

use super::command::Command;
use crate::Result;
use crate::engine::gpu::adapters;
use crate::engine::{Chosen, Device, Place};
use crate::serve::JobProcess;

/// Do the jobs of a service, which come on standard input
#[derive(clap::Args)]
#[command(hide = true)]
pub(super) struct Args {
    /// Where to compute
    #[arg(long)]
    device: Device,
    /// Bytes that a job may use
    #[arg(long)]
    memory: u64,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }

    fn looks_for_gpus(&self) -> bool {
        self.device != Device::Cpu
    }
}

fn run(args: &Args) -> Result<()> {
    let place = match args.device {
        Device::Cpu => Place::of(Chosen::Cpu),
        _ => Place::of(args.device.choose(&adapters::list())?),
    };
    JobProcess { place, memory: args.memory }.run()
}
