//! The service: everything the command line computes, over HTTP, with a page to watch it on.
//!
//! A [`Service`] is a folder and a database (`store`), a queue of jobs with workers for each device (`queue`, `worker`), which
//! have processes of their own to do what each kind of job is (`process`, `child`, `work`). Every state change is committed
//! before it is acknowledged: after a crash, queued jobs are queued, running fits go on from their checkpoints, and files that
//! were not whole are gone. [`api`] is the way in.

mod domain;
mod http;
mod run;
mod signals;
mod store;

pub use domain::limits::Limits;
pub use domain::request::{
    EvaluateRequest, FitRequest, LossRequest, Request, SampleRequest, SimulateRequest,
};
pub use run::child::{Workplace, work};
pub use run::service::{Options, Service};
pub(crate) use store::tokens;

use crate::{Error, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Runs a service until Ctrl-C. `ready` is told the address once clients can connect. Ends within
/// [`Limits::shutdown`](Limits) of the first signal, whatever connections and jobs are doing, and at once at the second.
pub fn run(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let listen = options.listen;
    let shutdown = options.limits.shutdown;
    let stop = signals::wish_to_end(shutdown)?;
    let (service, workers) = Service::start(options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::invalid(format!("the service cannot start: {error}")))?;
    let outcome = runtime.block_on(listen_until_stopped(service.clone(), listen, stop.clone(), ready));
    service.close();
    let asked = *outcome.as_ref().unwrap_or(&Instant::now());
    // A worker that panicked has said so; one that does not end loses its process, and its job goes on next time.
    while workers.iter().any(|worker| !worker.is_finished()) && asked.elapsed() < shutdown {
        std::thread::sleep(run::watch::BEAT);
    }
    runtime.shutdown_background();
    outcome.map(|_| ())
}

/// When it was asked to stop.
async fn listen_until_stopped(
    service: Arc<Service>,
    listen: SocketAddr,
    stop: tokio::sync::watch::Receiver<bool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<Instant> {
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot listen on {listen}: {error}"));
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(cannot)?;
    ready(listener.local_addr().map_err(cannot)?);
    run::clean::keep_cleaning(service.clone());
    let (closing, mut asked) = (service.clone(), stop.clone());
    tokio::spawn(async move {
        let _ = asked.wait_for(|stop| *stop).await;
        // Event streams end and fits keep a checkpoint, so that connections can close.
        closing.close();
    });
    Ok(http::listen::listen(service, listener, stop).await)
}
