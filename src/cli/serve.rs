//! `skds serve`: everything else, over HTTP.

use super::command::Command;
use crate::engine::gpu::adapters::{self, GpuKind};
use crate::engine::{Chosen, Device, Place};
use crate::files::input;
use crate::serve::{Limits, Options, run as serve, tokens};
use crate::{Error, Result, program as own_program};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The longest time limit in seconds.
const LONGEST: f64 = 86_400.0;

/// Run a server for fits, samples, evaluations, losses and simulations
///
/// Open the address in a browser for the page. The HTTP API is below /v1, its description at /v1/openapi.json, and metrics
/// for Prometheus at /metrics. /healthz reports whether workers, database and disk work. Jobs and files survive a crash:
/// queued jobs stay queued, and fits continue from their checkpoints.
///
/// The folder of --data must be new, empty, or the folder of a server. Only its owner can read it.
///
/// The server speaks plain HTTP. To serve other machines, put a reverse proxy with TLS, such as nginx or Caddy, in front of
/// the loopback address and give the server a token. On any other address, the server does not start without one.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # For this machine; then open http://127.0.0.1:8765
  skds serve

  # For a group, behind a proxy with TLS: each person has a token and sees their own jobs
  skds serve --data /srv/skds --add-token anna
  skds serve --data /srv/skds --keep-days 30 --max-disk 100

  # Run a fit on the server
  skds --server http://127.0.0.1:8765 fit train.npz -o model.safetensors")]
pub(super) struct Args {
    /// Listen on this address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8765")]
    listen: SocketAddr,
    /// Keep the database, uploads and results in this folder
    #[arg(long, default_value = "skds-service", value_name = "DIR")]
    data: PathBuf,
    /// The devices: auto (the CPU and every hardware GPU), cpu, gpu, or an index or part of a name
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: Device,
    /// Make a new database for a folder that lost its own: keep datasets and models, and move files of jobs aside
    #[arg(long)]
    recover: bool,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Evaluate every loss alone, to compare
    #[arg(long, hide = true)]
    no_batching: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Tokens")]
struct TokenArgs {
    /// Require the token in this file from all clients; SKDS_TOKEN in the environment does the same
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Create a token for NAME, print it and exit; a running server accepts it at once
    #[arg(long, value_name = "NAME", group = "tokens")]
    add_token: Option<String>,
    /// Revoke the token of NAME and exit; a running server refuses it at once
    #[arg(long, value_name = "NAME", group = "tokens")]
    revoke_token: Option<String>,
    /// Print the names of all tokens and exit
    #[arg(long, group = "tokens")]
    list_tokens: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Storage")]
struct StorageArgs {
    /// Delete finished jobs after this many days, and data that no job uses
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<f64>,
    /// Delete finished jobs, oldest first, while the folder is larger than this many GiB
    #[arg(long, value_name = "GIB")]
    max_disk: Option<f64>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Largest upload, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().upload_bytes >> 20)]
    max_upload: u64,
    /// Largest number of variables
    #[arg(long, value_name = "D", default_value_t = Limits::default().variables)]
    max_variables: usize,
    /// Largest memory of a job, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().job_bytes >> 20)]
    max_memory: u64,
    /// Longest time of a job, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().job_seconds)]
    max_seconds: f64,
    /// Largest number of waiting jobs
    #[arg(long, value_name = "N", default_value_t = Limits::default().queued)]
    max_queued: usize,
    /// Largest number of waiting jobs per client, by its token or else its address
    #[arg(long, value_name = "N", default_value_t = Limits::default().queued_each)]
    max_queued_each: usize,
    /// Largest number of connections at a time; the server raises its limit of open files if necessary
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Time limit for a silent client, in seconds
    ///
    /// It applies to the head of a request, between two parts of a body or an answer, and between two requests.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().patience.as_secs_f64())]
    patience: f64,
    /// Longest time to shut down after Ctrl-C or SIGTERM, in seconds; a second signal ends the server at once
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().shutdown.as_secs_f64())]
    shutdown: f64,
}

/// A number above 0, or none.
fn above(name: &str, value: Option<f64>) -> Result<Option<f64>> {
    match value {
        Some(value) if !(value > 0.0 && value.is_finite()) => {
            Err(Error::invalid(format!("{name} is {value}, expected a number above 0")))
        }
        value => Ok(value),
    }
}

fn seconds(name: &str, value: f64) -> Result<Duration> {
    match value {
        value if value > 0.0 && value <= LONGEST => Ok(Duration::from_secs_f64(value)),
        value => {
            Err(Error::invalid(format!("{name} is {value} s, expected more than 0 and at most {LONGEST}")))
        }
    }
}

impl LimitArgs {
    fn limits(&self) -> Result<Limits> {
        let mebibytes = |count: u64| count.saturating_mul(1 << 20);
        Ok(Limits {
            upload_bytes: mebibytes(self.max_upload),
            variables: self.max_variables,
            job_bytes: mebibytes(self.max_memory),
            job_seconds: above("--max-seconds", Some(self.max_seconds))?.unwrap_or(f64::INFINITY),
            queued: self.max_queued,
            queued_each: self.max_queued_each,
            connections: self.max_connections,
            patience: seconds("--patience", self.patience)?,
            shutdown: seconds("--shutdown", self.shutdown)?,
            ..Limits::default()
        })
    }
}

impl Args {
    fn token(&self) -> Result<Option<String>> {
        let token = match &self.tokens.token_file {
            Some(path) => Some(input::text(path)?),
            None => std::env::var("SKDS_TOKEN").ok(),
        };
        match token.map(|token| token.trim().to_owned()) {
            Some(token) if token.len() < 16 => {
                Err(Error::invalid(format!("the token has {} characters, expected at least 16", token.len())))
            }
            token => Ok(token),
        }
    }

    fn places(&self) -> Result<Vec<Place>> {
        if self.device == Device::Cpu {
            return Ok(vec![Place::Cpu]);
        }
        let gpus = adapters::list();
        if self.device == Device::Auto {
            let real = gpus.iter().filter(|gpu| gpu.kind() != GpuKind::Software);
            return Ok(std::iter::once(Place::Cpu)
                .chain(real.map(|gpu| Place::of(Chosen::Gpu(gpu))))
                .collect());
        }
        Ok(vec![Place::of(self.device.choose(&gpus)?)])
    }
}

/// What the service writes is its user's alone, whatever the files are.
fn keep_private() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// This program, for the processes of jobs.
fn program() -> Result<Vec<OsString>> {
    own_program::words().map_err(|source| Error::Io { action: "find", path: "skds".into(), source })
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
    keep_private();
    if let Some(name) = &args.tokens.add_token {
        return super::print(&tokens::add(&args.data, name)?);
    }
    if let Some(name) = &args.tokens.revoke_token {
        return tokens::revoke(&args.data, name);
    }
    if args.tokens.list_tokens {
        return tokens::names(&args.data)?.iter().try_for_each(|name| super::print(name));
    }
    let options = Options {
        listen: args.listen,
        data: args.data.clone(),
        token: args.token()?,
        recover: args.recover,
        limits: args.limits.limits()?,
        places: args.places()?,
        batching: !args.no_batching,
        keep_days: above("--keep-days", args.storage.keep_days)?,
        max_disk: above("--max-disk", args.storage.max_disk)?.map(|gib| (gib * f64::from(1 << 30)) as u64),
        program: program()?,
    };
    // The one line on standard output: programs that start a service read the port there.
    serve(options, |address| {
        let _ = super::print(&format!("listening on http://{address}"));
    })
}
