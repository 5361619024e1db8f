//! The service: everything the command line computes, over HTTP, with a page to watch it on.
//!
//! A [`Service`] is a folder and a database (`store`), a queue of jobs with one worker per device (`queue`, `worker`), and what each
//! kind of job does (`work`). Every state change is committed before it is acknowledged: after a crash, queued jobs are queued,
//! running fits go on from their checkpoints, and files that were not whole are gone. [`api`] is the way in.

pub mod api;
mod cache;
mod child;
mod clean;
mod deaths;
mod describe;
mod events;
mod files;
mod id;
mod limits;
mod message;
mod metrics;
mod need;
mod problem;
mod process;
mod queue;
mod request;
mod service;
mod store;
mod watch;
mod work;
mod worker;

pub use child::{Workplace, work};
pub use limits::Limits;
pub use request::{EvaluateRequest, FitRequest, LossRequest, Request, SampleRequest, SimulateRequest};
pub use service::{Options, Service};

use crate::{Error, Result};
use std::net::SocketAddr;
use std::sync::Arc;

/// Runs a service until Ctrl-C. `ready` is told the address once clients can connect.
pub fn run(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let listen = options.listen;
    if !listen.ip().is_loopback() && options.token.is_none() {
        return Err(Error::invalid(format!(
            "the address {listen} can be reached from other machines, expected a token for it: give --token-file or SKDS_TOKEN"
        )));
    }
    let (service, workers) = Service::start(options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::invalid(format!("the service cannot start: {error}")))?;
    let outcome = runtime.block_on(listen_until_stopped(service.clone(), listen, ready));
    service.close();
    for worker in workers {
        // A worker that panicked has said so.
        let _ = worker.join();
    }
    outcome
}

async fn listen_until_stopped(
    service: Arc<Service>,
    listen: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot listen on {listen}: {error}"));
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(cannot)?;
    ready(listener.local_addr().map_err(cannot)?);
    clean::keep_cleaning(service.clone());
    let closing = service.clone();
    let stopped = async move {
        asked_to_end().await;
        // Event streams end and fits keep a checkpoint, so that connections can close.
        closing.close();
    };
    let app = api::router(service).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).with_graceful_shutdown(stopped).await.map_err(cannot)
}

/// Ctrl-C, or a polite kill.
async fn asked_to_end() {
    #[cfg(unix)]
    if let Ok(mut ended) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = ended.recv() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}
