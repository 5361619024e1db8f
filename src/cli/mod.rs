//! The command line: one file per command, and `command` lists them.

mod advice;
mod bench;
mod command;
mod completions;
mod convexity;
mod data;
mod device;
mod devices;
mod evaluate;
mod experiment;
mod fit;
mod graph;
#[cfg(test)]
mod help_tests;
mod loss;
mod man;
mod print;
mod progress;
mod quiet;
#[cfg(feature = "serve")]
mod remote;
mod sample;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
mod suggest;
mod validate;
#[cfg(feature = "serve")]
mod work;

use crate::stderr::say;
use crate::{Error, Result};
use clap::Parser;
use command::AnyCommand;
use print::{print, print_json, print_report};
use std::ffi::OsString;
use std::process::ExitCode;

/// Learn stationary diffusions from samples, and predict what interventions do.
///
/// skds reads samples of a system, some of them observed under interventions, and learns a linear or neural stochastic
/// differential equation whose stationary law matches them. The model says which variable drives which, and predicts
/// interventions that nobody has tried.
#[derive(Parser)]
#[command(name = "skds", version, max_term_width = 100)]
#[command(after_help = "Run 'skds COMMAND --help' for the details of a command.")]
#[command(after_long_help = "\
Run 'skds COMMAND --help' for the details of a command.

Examples:
  skds fit train.npz -o model.safetensors
  skds graph model.safetensors --top 10 --heatmap effects.svg
  skds sample model.safetensors -n 1000 -o samples.npz
  skds evaluate model.safetensors test.npz
  skds suggest model.safetensors --from train.npz
  skds loss data.npz --params model.safetensors
  skds simulate sde -o systems/sde-er-0
  skds experiment run experiments/quick.toml -o results/quick
  skds serve
  skds --server http://127.0.0.1:8765 fit train.npz -o model.safetensors
  skds validate --quick --device gpu")]
struct Cli {
    #[cfg(feature = "serve")]
    /// Run the command on the server at this address
    ///
    /// Start a server with 'skds serve'. If it asks for a token, set SKDS_TOKEN. Servers run fit, loss, sample,
    /// evaluate and simulate.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(subcommand)]
    command: AnyCommand,
}

/// Runs the command line of this process.
///
/// Exit codes: 0 for success, 1 for a computation that failed on valid input, 2 for bad input.
pub fn main() -> ExitCode {
    ended(&Cli::parse()).into()
}

/// Runs a command line inside of another program and returns its exit code. `words` start the program again.
pub fn main_of(arguments: Vec<OsString>, words: Vec<OsString>) -> u8 {
    crate::program::is_started_by(words);
    match Cli::try_parse_from(arguments) {
        Ok(cli) => ended(&cli),
        Err(error) => {
            // A reader that has gone away is no error.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
    }
}

/// Runs a command and says what went wrong, if anything has; returns the exit code.
fn ended(cli: &Cli) -> u8 {
    match run(cli) {
        Ok(()) => 0,
        Err(error) => {
            say!("error: {}", advice::with_options(&error.to_string()));
            exit_code(&error)
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let command = cli.command.inner();
    #[cfg(feature = "serve")]
    if let Some(url) = &cli.server {
        return command.run_remote(&remote::Remote::new(url)?);
    }
    if command.looks_for_gpus() {
        quiet::quieten_mesa();
    }
    command.run()
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
