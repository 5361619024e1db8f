//! The service: everything that the command line computes, over HTTP, with a page to watch it on.
//!
//! It has four layers, and each knows only those before it. `domain` holds what the service is about as values: requests and jobs,
//! identities, limits, errors. `store` keeps them, in a database and a folder of files. `run` does the jobs: a [`Service`] with its
//! queue, and workers with processes for each device. `http` is the way in.
//!
//! Every change of state is committed before it is acknowledged. After a crash, queued jobs are queued, fits resume from their
//! checkpoints, and files that were not whole are gone.

mod domain;
mod http;
mod run;
mod signals;
mod store;

pub use domain::kinds::Request;
pub use domain::kinds::evaluate::EvaluateRequest;
pub use domain::kinds::fit::FitRequest;
pub use domain::kinds::loss::LossRequest;
pub use domain::kinds::sample::SampleRequest;
pub use domain::kinds::simulate::SimulateRequest;
pub use domain::limits::Limits;
pub use run::job_process::JobProcess;
pub use run::service::{Options, Service};
pub(crate) use store::tokens;

use crate::{Error, Result};
use domain::kinds::task::POLL_INTERVAL;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Runs a service until Ctrl-C. It calls `ready` with its address once clients can connect. It ends within
/// [`Limits::shutdown`](Limits) of the first signal, whatever connections and jobs are doing, and at once at the second signal.
pub fn run(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let listen = options.listen;
    let shutdown = options.limits.shutdown;
    let stop = signals::first_signal(shutdown)?;
    let (service, workers) = Service::start(options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::invalid(format!("the service cannot start: {error}")))?;
    let outcome = runtime.block_on(listen_until_stopped(service.clone(), listen, stop.clone(), ready));
    service.close();
    let asked = *outcome.as_ref().unwrap_or(&Instant::now());
    // A worker that panicked has reported that. A worker that does not end loses its process, and its job continues next time.
    while workers.iter().any(|worker| !worker.is_finished()) && asked.elapsed() < shutdown {
        std::thread::sleep(POLL_INTERVAL);
    }
    runtime.shutdown_background();
    outcome.map(|_| ())
}

/// Listens until `stop` is true, and returns when that was.
async fn listen_until_stopped(
    service: Arc<Service>,
    listen: SocketAddr,
    stop: tokio::sync::watch::Receiver<bool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<Instant> {
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot listen on {listen}: {error}"));
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(cannot)?;
    ready(listener.local_addr().map_err(cannot)?);
    run::keep_cleaning(service.clone());
    let (closing, mut asked) = (service.clone(), stop.clone());
    tokio::spawn(async move {
        let _ = asked.wait_for(|stop| *stop).await;
        // Event streams end and fits keep a checkpoint, so that connections can close.
        closing.close();
    });
    Ok(http::connections::listen(service, listener, stop).await)
}
