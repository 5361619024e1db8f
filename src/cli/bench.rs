//! `skds bench`: how fast this machine is, beside the paper, beside alternatives and beside its own limits.

use super::command::Command;
use super::progress::ProgressDisplay;
use super::{print_json, print_report};
use crate::bench::report::{DeviceReport, Report};
use crate::bench::{Effort, Machine, memory, paper, peers, roofline, scaling, training};
use crate::engine::gpu::adapters;
use crate::engine::{Chosen, Device, Place};
use crate::{Error, Progress, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Measure how fast losses, training and fits are on this machine
///
/// Without a section, the command measures the paper's table: value and gradient of SKDS and KDS for all three kernels, with
/// n = 1000 and d = 20, on every device. Things that are compared run in turns, so that noise affects all of them. Times
/// are medians. Results of a software GPU are labelled, because they say nothing about a hardware GPU.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # The paper's table, in seconds
  skds bench --quick

  # How time grows with variables and samples, with plots
  skds bench --scaling -o results/bench

  # How close to the limits of the machine, on the CPU only
  skds bench --roofline --train --memory --device cpu

  # Side by side with JAX, in a Python environment that has it
  python3 -m venv venv && venv/bin/pip install -r benches/peers/requirements.txt
  skds bench --peers --python venv/bin/python")]
pub(super) struct Args {
    /// Use fewer repetitions and sizes
    #[arg(long)]
    quick: bool,
    /// The device: all, cpu, gpu, or an index or part of a name from 'skds devices'
    #[arg(long, default_value = "all", value_name = "DEVICE")]
    device: String,
    /// Write bench.json, bench.csv and plots to this folder
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Measure time over variables (10 to 4000) and samples
    #[arg(long, help_heading = "Sections")]
    scaling: bool,
    /// Measure whole training steps, and exact fits
    #[arg(long, help_heading = "Sections")]
    train: bool,
    /// Compare the operations and bytes of each path with the matrix-multiply and memory rates of the device
    #[arg(long, help_heading = "Sections")]
    roofline: bool,
    /// Measure the peak memory of training and of all pairs, each in its own process
    #[arg(long, help_heading = "Sections")]
    memory: bool,
    /// Compare with the same losses in JAX, on the CPU
    #[arg(long, help_heading = "Sections")]
    peers: bool,
    /// The Python program for --peers, which has JAX
    #[arg(long, value_name = "PROGRAM", default_value = "python3", help_heading = "Sections")]
    python: PathBuf,
    /// Measure the memory of one computation in this process and print it as JSON
    #[arg(long, value_name = "WORK", hide = true)]
    memory_of: Option<memory::MemoryWorkload>,
}

impl Args {
    fn may_be_gpu(&self) -> bool {
        self.device != "cpu" && self.memory_of.is_none()
    }

    /// The devices to measure.
    fn places(&self) -> Result<Vec<Place>> {
        if self.device == "cpu" {
            return Ok(vec![Place::Cpu]);
        }
        let gpus = adapters::list();
        if self.device == "all" {
            let gpus = gpus.iter().map(|gpu| Place::of(Chosen::Gpu(gpu)));
            return Ok(std::iter::once(Place::Cpu).chain(gpus).collect());
        }
        let device: Device = self.device.parse()?;
        Ok(vec![Place::of(device.choose(&gpus)?)])
    }
}

/// Counts what is done of one section.
struct Steps {
    progress: Arc<Progress>,
    _display: ProgressDisplay,
}

impl Steps {
    fn new(what: &'static str, all: u64) -> Self {
        let progress = Arc::new(Progress::default());
        let _display = ProgressDisplay::new(what, progress.clone(), all);
        Steps { progress, _display }
    }

    fn one(&self) {
        // Nobody asks a bench to stop.
        let _ = self.progress.add(1);
    }
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }

    fn looks_for_gpus(&self) -> bool {
        self.may_be_gpu()
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(work) = args.memory_of {
        return print_json(&memory::measure(work)?);
    }
    if let Some(folder) = args.output.as_ref().filter(|folder| folder.exists() && !folder.is_dir()) {
        return Err(Error::file(folder, "is a file, expected a folder to write to"));
    }
    let start = Instant::now();
    let places = args.places()?;
    // What may be missing is asked for before anything is measured.
    let mut python = match args.peers {
        true => Some(peers::Python::start(&args.python)?),
        false => None,
    };
    let gpus = if args.may_be_gpu() { adapters::list() } else { Vec::new() };
    let machine = Machine::here(&gpus);
    // On a thread of the pool, as in training: entering it is no part of an evaluation.
    let devices = places
        .iter()
        .map(|place| {
            let mut found = None;
            rayon::scope(|_| found = Some(measure(args, place)));
            found.expect("the scope has ended")
        })
        .collect::<Result<Vec<_>>>()?;
    let mut report = Report {
        machine,
        devices,
        memory: Vec::new(),
        peers_description: python.as_ref().map(|python| python.description.clone()),
        peers: Vec::new(),
        seconds: 0.0,
    };
    if args.memory {
        let works = if args.quick { memory::QUICK_WORKLOADS } else { memory::FULL_WORKLOADS };
        let steps = Steps::new("computations", works.len() as u64);
        for work in works {
            report.memory.push(memory::in_new_process(work)?);
            steps.one();
        }
    }
    if let Some(python) = &mut python {
        report.peers = compare(args, python)?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    let files = match &args.output {
        Some(folder) => report.write(folder)?,
        None => Vec::new(),
    };
    print_report(args.json, &report, || {
        let mut text = report.to_text();
        for file in files {
            text.push_str(&format!("\nwritten to {}", file.display()));
        }
        text
    })
}

/// The sections of one device.
fn measure(args: &Args, place: &Place) -> Result<DeviceReport> {
    let (table, sweep) = match args.quick {
        true => (Effort::QUICK, Effort::QUICK),
        false => (Effort::PAPER, Effort::SWEEP),
    };
    let mut report =
        DeviceReport { device: place.name(), software: place.is_software(), ..DeviceReport::default() };
    if !(args.scaling || args.train || args.roofline || args.memory || args.peers) {
        report.paper = paper::table(place, table)?;
    }
    if args.scaling {
        let reach = match args.quick || place.is_software() {
            true => scaling::SweepRange::Short,
            false => scaling::SweepRange::Full,
        };
        let steps = Steps::new("sizes", scaling::sizes(reach));
        report.scaling = scaling::sweeps(place, reach, sweep, &mut || steps.one())?;
    }
    if args.train {
        let steps = Steps::new("sizes", training::step_count(place));
        report.steps = training::steps(place, sweep, &mut || steps.one())?;
        if matches!(place, Place::Cpu) {
            report.fits = training::exact_fits(sweep)?;
        }
    }
    if args.roofline {
        report.roofline = Some(roofline::roofline(place, args.quick, table)?);
    }
    Ok(report)
}

fn compare(args: &Args, python: &mut peers::Python) -> Result<Vec<peers::PeerTimes>> {
    let cases = peers::cases(args.quick);
    let steps = Steps::new("comparisons", cases.len() as u64);
    let effort = if args.quick { Effort::QUICK } else { Effort { turns: 10, repetitions: 10, seconds: 0.2 } };
    let mut rows = Vec::new();
    for (peer, case) in cases {
        let mut found = None;
        // Evaluations run on the pool's threads; the peer is waited for outside of it.
        rayon::in_place_scope(|_| found = Some(python.compare(peer, case, effort)));
        rows.push(found.expect("the scope has ended")?);
        steps.one();
    }
    Ok(rows)
}
