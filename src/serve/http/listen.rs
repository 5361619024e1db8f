//! Connections: a bounded number of them, and a bounded time for each thing a client may take its time with.
//!
//! A client has [`Limits::patience`] to send the head of a request, between two parts of a body (see `api::uploads`), to take the
//! next part of an answer, and between two requests. When there is no room for another connection, one that waits for its
//! client gives way: the one that has waited longest of those that never asked anything, then of the rest. Those whose requests
//! are being answered stay.

use crate::serve::domain::limits::Limits;
use crate::serve::run::service::Service;
use crate::stderr::say;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tower_service::Service as _;

/// File handles that are not for connections: the database, files that come and go, processes.
const OTHER_HANDLES: usize = 200;
/// Time until the next try after a connection could not be taken.
const AGAIN: Duration = Duration::from_millis(50);
/// To those for whom there is no room, as far as their socket takes it at once.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nconnection: close\r\n\
content-type: application/json\r\ncontent-length: 76\r\n\r\n\
{\"error\":\"the service has too many connections, expected fewer: try again\"}\n";

/// Takes connections until `stop` is true; then those that wait for their clients are closed at once, and the others when they
/// have been answered, or when `limits.shutdown` is over. Tells when it was asked to stop.
pub(in crate::serve) async fn listen(
    service: Arc<Service>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) -> Instant {
    let limits = service.limits;
    let app = super::router(service);
    let guests = Arc::new(Guests::new(room_for(limits.connections)));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => match guests.welcome() {
                Some(guest) => {
                    let connection = Connection { app: app.clone(), address, guest, limits };
                    connections.spawn(connection.serve(stream, stop.clone()));
                }
                None => refuse(stream),
            },
            // Out of file handles, or a client that is gone already: neither is the end of the service.
            Err(error) => {
                say!("error: a connection could not be taken: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    let asked = Instant::now();
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown, all).await.is_err() {
        say!("{} connections did not end in time and are closed", connections.len());
    }
    asked
}

/// Says that there is no room, if the socket takes that at once.
fn refuse(stream: TcpStream) {
    let _ = stream.into_std().and_then(|mut stream| std::io::Write::write(&mut stream, FULL));
}

/// As many connections as there are file handles for, and no more than wanted. Asks for more handles if need be.
#[cfg(unix)]
fn room_for(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = wanted.saturating_add(OTHER_HANDLES) as u64;
    let Some(mut handles) = current else { return wanted };
    if handles < needed {
        let more = maximum.map_or(needed, |most| most.min(needed));
        if more > handles && setrlimit(Resource::Nofile, Rlimit { current: Some(more), maximum }).is_ok() {
            handles = more;
        }
    }
    let room = usize::try_from(handles).unwrap_or(usize::MAX);
    wanted.min(room.saturating_sub(OTHER_HANDLES)).max(1)
}

#[cfg(not(unix))]
fn room_for(wanted: usize) -> usize {
    wanted.max(1)
}

struct Connection {
    app: axum::Router,
    address: SocketAddr,
    guest: Arc<Guest>,
    limits: Limits,
}

impl Connection {
    async fn serve(self, stream: TcpStream, mut stop: watch::Receiver<bool>) {
        let Connection { app, address, guest, limits } = self;
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.patience));
        let answer = {
            let guest = guest.clone();
            service_fn(move |request: hyper::Request<Incoming>| {
                let busy = Busy::new(guest.clone());
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(ConnectInfo(address));
                let answer = app.clone().call(request);
                async move { answer.await.map(|response| response.map(|body| Answering { body, _busy: busy })) }
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.patience)
            .serve_connection(TokioIo::new(Box::pin(stream)), answer);
        let mut connection = std::pin::pin!(connection);
        let mut stopping = false;
        loop {
            tokio::select! {
                // It has ended, well or not: who was cut off knows.
                _ = connection.as_mut() => break,
                () = guest.leave.notified() => {
                    // Who has asked in the meantime is answered first.
                    if !guest.is_busy() {
                        break;
                    }
                    guest.stay();
                }
                _ = stop.wait_for(|stop| *stop), if !stopping => {
                    if !guest.is_busy() {
                        break;
                    }
                    connection.as_mut().graceful_shutdown();
                    stopping = true;
                }
            }
        }
    }
}

/// A connection, as long as there is one.
struct Guest {
    number: u64,
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// Whether it has ever asked anything.
    has_asked: AtomicBool,
    /// It has to go.
    leave: Notify,
    all: Arc<Mutex<BTreeMap<u64, std::sync::Weak<Guest>>>>,
}

impl Guest {
    fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Is counted again after it was asked to leave.
    fn stay(self: &Arc<Self>) {
        lock(&self.all).insert(self.number, Arc::downgrade(self));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.number);
    }
}

type Known = BTreeMap<u64, std::sync::Weak<Guest>>;

fn lock(all: &Mutex<Known>) -> MutexGuard<'_, Known> {
    all.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All connections.
struct Guests {
    most: usize,
    next: std::sync::atomic::AtomicU64,
    all: Arc<Mutex<Known>>,
}

impl Guests {
    fn new(most: usize) -> Self {
        Guests { most, next: Default::default(), all: Arc::default() }
    }

    /// Lets one more in; if there is no room, another one leaves. None if all others are being answered.
    fn welcome(&self) -> Option<Arc<Guest>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let guest = Arc::new(Guest {
            number,
            requests: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            leave: Notify::new(),
            all: self.all.clone(),
        });
        // Dropped after the lock: a guest takes itself from the list.
        let others: Vec<Arc<Guest>>;
        let mut all = lock(&self.all);
        if all.len() >= self.most {
            others = all.values().filter_map(std::sync::Weak::upgrade).collect();
            let waits = others.iter().filter(|guest| !guest.is_busy());
            match waits.min_by_key(|guest| (guest.has_asked.load(Ordering::Relaxed), guest.number)) {
                Some(guest) => {
                    guest.leave.notify_one();
                    // Its handle is free a moment later; it is not asked to leave twice.
                    all.remove(&guest.number);
                }
                None => {
                    drop(all);
                    return None;
                }
            }
        }
        all.insert(number, Arc::downgrade(&guest));
        drop(all);
        Some(guest)
    }
}

/// A request that is being answered, until the answer has been sent.
struct Busy(Arc<Guest>);

impl Busy {
    fn new(guest: Arc<Guest>) -> Self {
        guest.requests.fetch_add(1, Ordering::Relaxed);
        guest.has_asked.store(true, Ordering::Relaxed);
        Busy(guest)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_nothing_gives_way_first_and_who_is_answered_never() {
        let guests = Guests::new(3);
        let asked = guests.welcome().unwrap();
        drop(Busy::new(asked.clone()));
        let answered = guests.welcome().unwrap();
        let answering = Busy::new(answered.clone());
        let silent = guests.welcome().unwrap();
        let left = |guest: &Guest| !lock(&guests.all).contains_key(&guest.number);
        let fourth = guests.welcome().unwrap();
        assert!(left(&silent) && !left(&asked) && !left(&answered));
        let fourth = Busy::new(fourth);
        let fifth = guests.welcome().unwrap();
        assert!(left(&asked) && !left(&answered));
        let fifth = Busy::new(fifth);
        assert!(guests.welcome().is_none(), "all are being answered");
        drop(answering);
        let sixth = guests.welcome().unwrap();
        assert!(left(&answered));
        answered.stay();
        assert!(!left(&answered), "it has asked before it could leave");
        drop((fourth, fifth, sixth));
        assert!(guests.welcome().is_some() && guests.most == 3);
    }

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{} bytes", body.len());
    }
}
