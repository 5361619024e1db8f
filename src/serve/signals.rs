//! How a service is asked to end: once politely, twice at once.

use crate::{Error, Result};
use std::time::Duration;
use tokio::sync::watch;

/// The exit code of who was ended by a second signal, as shells have it for Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Added to the time that the service has to end, after which it is ended.
const MARGIN: Duration = Duration::from_secs(2);

/// Becomes true at the first Ctrl-C or polite kill. The second one ends the program at once; so does the end of the time that
/// the service has, while anyone still holds what this returns. On a thread of its own: whatever the service is busy with, this
/// is heard.
pub(super) fn wish_to_end(within: Duration) -> Result<watch::Receiver<bool>> {
    let cannot = |error: std::io::Error| Error::invalid(format!("the service cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let mut signals = runtime.block_on(async { Signals::new() }).map_err(cannot)?;
    let (sender, wish) = watch::channel(false);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = signals.next() => {}
                () = sender.closed() => return,
            }
            let _ = sender.send(true);
            tokio::select! {
                () = signals.next() => std::process::exit(INTERRUPTED),
                () = tokio::time::sleep(within + MARGIN) => std::process::exit(1),
                () = sender.closed() => {}
            }
        });
    });
    Ok(wish)
}

#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
