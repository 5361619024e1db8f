//! The command line: one file per command.

mod advice;
mod bench;
mod convexity;
mod device;
mod devices;
mod evaluate;
mod experiment;
mod fit;
mod fit_exact;
mod graph;
mod loss;
mod progress;
mod quiet;
#[cfg(feature = "serve")]
mod remote;
mod sample;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
mod validate;
#[cfg(feature = "serve")]
mod work;

use crate::stderr::say;
use crate::{Error, Result};
use clap::{Parser, Subcommand};
use serde::Serialize;
use std::process::ExitCode;

/// Learn stationary diffusions from samples.
#[derive(Parser)]
#[command(name = "skds", version, about, max_term_width = 100)]
#[command(after_help = "Examples:
  skds fit train.npz -o model.safetensors
  skds loss data.npz --params model.safetensors
  skds loss data.csv --targets targets.csv --params model.safetensors --estimator u --json
  skds graph model.safetensors --top 10 --heatmap effects.svg
  skds sample model.safetensors -n 1000 -o samples.npz
  skds evaluate model.safetensors test.npz
  skds convexity train.npz
  skds simulate sde -o systems/sde-er-0
  skds experiment run experiments/quick.toml -o results/quick
  skds bench --quick
  skds serve
  skds --server http://127.0.0.1:8765 fit train.npz -o model.safetensors
  skds devices
  skds validate --quick --device gpu

Run 'skds COMMAND --help' for everything a command can do.")]
struct Cli {
    #[cfg(feature = "serve")]
    /// Have it done by a service: the address of an 'skds serve'. Its token, if it has one, is taken from SKDS_TOKEN
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Fit(Box<fit::Args>),
    Loss(loss::Args),
    Graph(graph::Args),
    Sample(sample::Args),
    Evaluate(evaluate::Args),
    Convexity(convexity::Args),
    Simulate(Box<simulate::Args>),
    Experiment(experiment::Args),
    Bench(bench::Args),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    Devices(devices::Args),
    Validate(validate::Args),
    #[cfg(feature = "serve")]
    #[command(hide = true)]
    Work(work::Args),
}

impl Command {
    /// Has the command done by a service.
    #[cfg(feature = "serve")]
    fn run_remote(&self, remote: &remote::Remote) -> Result<()> {
        match self {
            Command::Fit(args) => fit::remote::run(args, remote),
            Command::Loss(args) => loss::remote::run(args, remote),
            Command::Sample(args) => sample::remote::run(args, remote),
            Command::Evaluate(args) => evaluate::remote::run(args, remote),
            Command::Simulate(args) => simulate::remote::run(args, remote),
            _ => Err(Error::invalid(
                "--server is given with a command that services do not have, expected fit, loss, sample, evaluate or simulate",
            )),
        }
    }

    fn looks_for_gpus(&self) -> bool {
        match self {
            Command::Fit(args) => args.device.may_be_gpu(),
            Command::Loss(args) => args.device.may_be_gpu(),
            Command::Validate(args) => args.device.may_be_gpu(),
            Command::Sample(args) => args.device.may_be_gpu(),
            Command::Evaluate(args) => args.device.may_be_gpu(),
            Command::Bench(args) => args.may_be_gpu(),
            #[cfg(feature = "serve")]
            Command::Serve(args) => args.device != crate::engine::Device::Cpu,
            #[cfg(feature = "serve")]
            Command::Work(args) => args.device != crate::engine::Device::Cpu,
            Command::Devices(_) => true,
            Command::Graph(_) | Command::Convexity(_) | Command::Simulate(_) | Command::Experiment(_) => {
                false
            }
        }
    }
}

/// Runs the command line of this process.
///
/// Exit codes: 0 for success, 1 for a computation that failed on valid input, 2 for bad input.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "serve")]
    if let Some(url) = &cli.server {
        return ended(remote::Remote::new(url).and_then(|remote| cli.command.run_remote(&remote)));
    }
    if cli.command.looks_for_gpus() {
        quiet::quieten_mesa();
    }
    let result = match cli.command {
        Command::Fit(args) => fit::run(&args),
        Command::Loss(args) => loss::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Convexity(args) => convexity::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Bench(args) => bench::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Validate(args) => validate::run(&args),
        #[cfg(feature = "serve")]
        Command::Work(args) => work::run(&args),
    };
    ended(result)
}

fn ended(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("error: {}", advice::with_options(&error.to_string()));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &Error) -> u8 {
    match error {
        Error::NonFinite(_)
        | Error::Failed(_)
        | Error::Mismatch(_)
        | Error::Device { .. }
        | Error::Stopped => 1,
        _ => 2,
    }
}

/// Prints a report: as one JSON object, or as the text that `text` makes of it.
fn print_report(json: bool, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    if json { print_json(report) } else { print(&text()) }
}

/// Prints one line of JSON.
fn print_json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string(value).expect("a report of plain values serialises"))
}

/// Prints to standard output; a reader that has gone away (`skds … | head`) is no error.
fn print(text: &str) -> Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{text}") {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Io { action: "write", path: "standard output".into(), source })
        }
        _ => Ok(()),
    }
}
