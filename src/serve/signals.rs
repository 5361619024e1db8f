//! Signals that end the service: the first one politely, the second one at once.

use crate::{Error, Result};
use std::time::Duration;
use tokio::sync::watch;

/// The exit code after a second signal, as shells use it for Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Added to the time that the service has to end. After that, the program exits.
const MARGIN: Duration = Duration::from_secs(2);

/// A value that becomes true at the first Ctrl-C or SIGTERM. A second signal exits the program at once. So does the end of the time
/// that the service has, while anyone still holds the value. A separate thread waits for signals, whatever keeps the service busy.
pub(super) fn first_signal(within: Duration) -> Result<watch::Receiver<bool>> {
    let cannot = |error: std::io::Error| Error::invalid(format!("the service cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let mut signals = runtime.block_on(async { Signals::new() }).map_err(cannot)?;
    let (sender, signalled) = watch::channel(false);
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
    Ok(signalled)
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
