//! Connections. Their number is limited, and so is the time for everything that a client does.
//!
//! A client has [`Limits::patience`] to send the head of a request, between two parts of a body (see `uploads`), to take the next part
//! of a response, and between two requests. When there is no room for another connection, one that waits for its client is closed:
//! the oldest of those without any request so far, or else the oldest of the rest. Connections whose requests are being answered
//! stay.

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

/// File handles for other purposes than connections: the database, files, processes.
const OTHER_HANDLES: usize = 200;
/// Time until the next try after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The response when there is no room.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nconnection: close\r\n\
content-type: application/json\r\ncontent-length: 76\r\n\r\n\
{\"error\":\"the service has too many connections, expected fewer: try again\"}\n";

/// Accepts connections until `stop` is true. Then it closes those that wait for their clients at once, and the others when their
/// requests are answered, or when `limits.shutdown` has passed. Returns when it was asked to stop.
pub(crate) async fn listen(
    service: Arc<Service>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) -> Instant {
    let limits = service.limits;
    let app = super::router(service);
    let connections = Arc::new(Connections::new(room_for(limits.connections)));
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => match connections.admit() {
                Some(slot) => {
                    let connection = Connection { app: app.clone(), address, slot, limits };
                    tasks.spawn(connection.serve(stream, stop.clone()));
                }
                None => refuse(stream),
            },
            // There are no file handles left, or the client is gone already. The service continues.
            Err(error) => {
                say!("error: a connection could not be accepted: {error}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    let asked = Instant::now();
    drop(listener);
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown, all).await.is_err() {
        say!("{} connections did not end in time and are closed", tasks.len());
    }
    asked
}

/// Responds that there is no room, if the socket accepts that at once.
fn refuse(stream: TcpStream) {
    let _ = stream.into_std().and_then(|mut stream| std::io::Write::write(&mut stream, FULL));
}

/// The number of connections that there are file handles for, at most as many as wanted. Asks for more handles if need be.
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
    slot: Arc<Slot>,
    limits: Limits,
}

impl Connection {
    async fn serve(self, stream: TcpStream, mut stop: watch::Receiver<bool>) {
        let Connection { app, address, slot, limits } = self;
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.patience));
        let answer = {
            let slot = slot.clone();
            service_fn(move |request: hyper::Request<Incoming>| {
                let busy = Busy::new(slot.clone());
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(ConnectInfo(address));
                let answer = app.clone().call(request);
                async move { answer.await.map(|response| response.map(|body| CountedBody { body, _busy: busy })) }
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
                // The connection has ended. If it was cut off, the client knows.
                _ = connection.as_mut() => break,
                () = slot.leave.notified() => {
                    // A request that arrived in the meantime is answered first.
                    if !slot.is_busy() {
                        break;
                    }
                    slot.stay();
                }
                _ = stop.wait_for(|stop| *stop), if !stopping => {
                    if !slot.is_busy() {
                        break;
                    }
                    connection.as_mut().graceful_shutdown();
                    stopping = true;
                }
            }
        }
    }
}

/// The place of a connection, as long as it is open.
struct Slot {
    number: u64,
    /// The number of requests that are being answered.
    requests: AtomicUsize,
    /// Whether a request has ever arrived.
    has_asked: AtomicBool,
    /// Notified when the connection has to close.
    leave: Notify,
    all: Arc<Mutex<BTreeMap<u64, std::sync::Weak<Slot>>>>,
}

impl Slot {
    fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Counts the connection again after it was asked to close.
    fn stay(self: &Arc<Self>) {
        lock(&self.all).insert(self.number, Arc::downgrade(self));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.number);
    }
}

type OpenSlots = BTreeMap<u64, std::sync::Weak<Slot>>;

fn lock(all: &Mutex<OpenSlots>) -> MutexGuard<'_, OpenSlots> {
    all.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All connections.
struct Connections {
    most: usize,
    next: std::sync::atomic::AtomicU64,
    all: Arc<Mutex<OpenSlots>>,
}

impl Connections {
    fn new(most: usize) -> Self {
        Connections { most, next: Default::default(), all: Arc::default() }
    }

    /// Admits one more connection. If there is no room, another one has to close; none if all others are being answered.
    fn admit(&self) -> Option<Arc<Slot>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot {
            number,
            requests: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            leave: Notify::new(),
            all: self.all.clone(),
        });
        // Dropped after the lock, because a slot removes itself from the list.
        let others: Vec<Arc<Slot>>;
        let mut all = lock(&self.all);
        if all.len() >= self.most {
            others = all.values().filter_map(std::sync::Weak::upgrade).collect();
            let waits = others.iter().filter(|slot| !slot.is_busy());
            match waits.min_by_key(|slot| (slot.has_asked.load(Ordering::Relaxed), slot.number)) {
                Some(slot) => {
                    slot.leave.notify_one();
                    // Its handle is free a moment later. It is not asked twice.
                    all.remove(&slot.number);
                }
                None => {
                    drop(all);
                    return None;
                }
            }
        }
        all.insert(number, Arc::downgrade(&slot));
        drop(all);
        Some(slot)
    }
}

/// Marks a request as being answered, until the response has been sent.
struct Busy(Arc<Slot>);

impl Busy {
    fn new(slot: Arc<Slot>) -> Self {
        slot.requests.fetch_add(1, Ordering::Relaxed);
        slot.has_asked.store(true, Ordering::Relaxed);
        Busy(slot)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response, which keeps its connection busy.
struct CountedBody {
    body: Body,
    _busy: Busy,
}

impl HttpBody for CountedBody {
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
    fn connections_without_requests_close_first_and_busy_ones_never() {
        let connections = Connections::new(3);
        let asked = connections.admit().unwrap();
        drop(Busy::new(asked.clone()));
        let answered = connections.admit().unwrap();
        let answering = Busy::new(answered.clone());
        let silent = connections.admit().unwrap();
        let left = |slot: &Slot| !lock(&connections.all).contains_key(&slot.number);
        let fourth = connections.admit().unwrap();
        assert!(left(&silent) && !left(&asked) && !left(&answered));
        let fourth = Busy::new(fourth);
        let fifth = connections.admit().unwrap();
        assert!(left(&asked) && !left(&answered));
        let fifth = Busy::new(fifth);
        assert!(connections.admit().is_none(), "all are being answered");
        drop(answering);
        let sixth = connections.admit().unwrap();
        assert!(left(&answered));
        answered.stay();
        assert!(!left(&answered), "a request arrived before it could close");
        drop((fourth, fifth, sixth));
        assert!(connections.admit().is_some() && connections.most == 3);
    }

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{} bytes", body.len());
    }
}
