//! `skds serve`: everything else, over HTTP.

use crate::engine::gpu::adapters::{self, GpuKind};
use crate::engine::{Chosen, Device, Place};
use crate::files::input;
use crate::serve::{Limits, Options, run as serve, tokens};
use crate::{Error, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The most seconds that anyone may be waited for.
const LONGEST: f64 = 86_400.0;

/// Serve fits, samples, evaluations, losses and simulations over HTTP, with a page to watch them on.
#[derive(clap::Args)]
#[command(
    after_help = "The page is at the address itself, the API below /v1, its description at /v1/openapi.json, numbers
for Prometheus at /metrics, and /healthz says whether workers, database and disk work. Jobs and files
survive a crash: queued jobs stay queued, fits go on from their checkpoints. The folder of --data must be
new, empty, or a service's own; only its user can read it.

The service speaks plain HTTP. For other machines put TLS in front of it (a reverse proxy such as
nginx or Caddy that forwards to the loopback address) and give it a token; on any address but the
loopback it does not start without one.

Examples:
  # For this machine, then open http://127.0.0.1:8765
  skds serve

  # For a group, behind a proxy with TLS on this machine: everyone has a token and sees their own jobs
  skds serve --data /srv/skds --add-token anna
  skds serve --data /srv/skds --keep-days 30 --max-disk 100

  # The same fit as on the command line, there
  skds --server http://127.0.0.1:8765 fit train.npz -o model.safetensors"
)]
pub(super) struct Args {
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8765")]
    listen: SocketAddr,
    /// The folder for the database, uploads and results
    #[arg(long, default_value = "skds-service", value_name = "DIR")]
    data: PathBuf,
    /// A file with the token that clients must send; SKDS_TOKEN in the environment serves as well
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Make a token for NAME, print it and end; a service that runs with this folder knows it at once
    #[arg(long, value_name = "NAME", group = "tokens")]
    add_token: Option<String>,
    /// Take the token of NAME back and end; a service that runs with this folder refuses it at once
    #[arg(long, value_name = "NAME", group = "tokens")]
    revoke_token: Option<String>,
    /// Print the names of all tokens and end
    #[arg(long, group = "tokens")]
    list_tokens: bool,
    /// Make a new database for a folder that has lost its own: datasets and models are kept, files of jobs moved aside
    #[arg(long)]
    recover: bool,
    /// Where to compute: auto (the CPU and every real GPU), cpu, gpu, or the index or a part of the name of one
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(super) device: Device,
    /// Remove finished jobs after so many days, and data that no job on record uses
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<f64>,
    /// Remove finished jobs, oldest first, while the folder takes more than so many GiB
    #[arg(long, value_name = "GIB")]
    max_disk: Option<f64>,
    /// The largest upload, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().upload_bytes >> 20)]
    max_upload: u64,
    /// The most variables
    #[arg(long, value_name = "D", default_value_t = Limits::default().variables)]
    max_variables: usize,
    /// The most memory that a job may need, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().job_bytes >> 20)]
    max_memory: u64,
    /// The longest that a job may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().job_seconds)]
    max_seconds: f64,
    /// The most jobs that may wait
    #[arg(long, value_name = "N", default_value_t = Limits::default().queued)]
    max_queued: usize,
    /// The most jobs of one client that may wait, by its token or else its address
    #[arg(long, value_name = "N", default_value_t = Limits::default().queued_each)]
    max_queued_each: usize,
    /// The most connections at a time; more file handles are asked for if need be
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// How long a client may take for the head of a request, between two parts of a body or an answer, and between two
    /// requests, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().patience.as_secs_f64())]
    patience: f64,
    /// The longest that the service takes to end after Ctrl-C or a polite kill, in seconds; a second one ends it at once
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().shutdown.as_secs_f64())]
    shutdown: f64,
    /// Evaluate every loss alone, to compare
    #[arg(long, hide = true)]
    no_batching: bool,
}

impl Args {
    fn token(&self) -> Result<Option<String>> {
        let token = match &self.token_file {
            Some(path) => Some(input::text(path)?),
            None => std::env::var("SKDS_TOKEN").ok(),
        };
        match token.map(|token| token.trim().to_owned()) {
            Some(token) if token.len() < 16 => {
                Err(Error::invalid(format!("the token has {} letters, expected at least 16", token.len())))
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

/// This program, for the processes of jobs: the one that runs, even if its file has been replaced in the meantime.
fn program() -> Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    let path = || PathBuf::from("skds");
    std::env::current_exe().map_err(|source| Error::Io { action: "find", path: path(), source })
}

pub(super) fn run(args: &Args) -> Result<()> {
    keep_private();
    if let Some(name) = &args.add_token {
        return super::print(&tokens::add(&args.data, name)?);
    }
    if let Some(name) = &args.revoke_token {
        return tokens::revoke(&args.data, name);
    }
    if args.list_tokens {
        return tokens::names(&args.data)?.iter().try_for_each(|name| super::print(name));
    }
    let above = |name: &str, value: Option<f64>| match value {
        Some(value) if !(value > 0.0 && value.is_finite()) => {
            Err(Error::invalid(format!("{name} is {value}, expected a number above 0")))
        }
        value => Ok(value),
    };
    let seconds = |name: &str, value: f64| match value {
        value if value > 0.0 && value <= LONGEST => Ok(Duration::from_secs_f64(value)),
        value => {
            Err(Error::invalid(format!("{name} is {value} s, expected more than 0 and at most {LONGEST}")))
        }
    };
    let mebibytes = |count: u64| count.saturating_mul(1 << 20);
    let limits = Limits {
        upload_bytes: mebibytes(args.max_upload),
        variables: args.max_variables,
        job_bytes: mebibytes(args.max_memory),
        job_seconds: above("--max-seconds", Some(args.max_seconds))?.unwrap_or(f64::INFINITY),
        queued: args.max_queued,
        queued_each: args.max_queued_each,
        connections: args.max_connections,
        patience: seconds("--patience", args.patience)?,
        shutdown: seconds("--shutdown", args.shutdown)?,
        ..Limits::default()
    };
    let options = Options {
        listen: args.listen,
        data: args.data.clone(),
        token: args.token()?,
        recover: args.recover,
        limits,
        places: args.places()?,
        batching: !args.no_batching,
        keep_days: above("--keep-days", args.keep_days)?,
        max_disk: above("--max-disk", args.max_disk)?.map(|gib| (gib * f64::from(1 << 30)) as u64),
        program: program()?,
    };
    // The one line on standard output: programs that start a service read the port there.
    serve(options, |address| {
        let _ = super::print(&format!("listening on http://{address}"));
    })
}
