//! Long work: it runs in a thread without the interpreter, which goes on to hear Ctrl-C and to show progress.

use crate::errors::{panicked, raised};
use pyo3::prelude::*;
use skds::Progress;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two looks at Ctrl-C and at the progress.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How far work is, and whether it should stop. The worker and the interpreter share it.
#[derive(Default)]
pub struct Watch {
    at: Mutex<Option<(u64, u64, Option<f64>)>>,
    /// What the work looks at to know whether it should stop, and what it counts with.
    counter: Arc<Progress>,
    /// The count at the end, of work that counts by itself.
    total: Option<u64>,
}

impl Watch {
    /// Work that counts by itself.
    pub fn counting(counter: Arc<Progress>, total: u64) -> Self {
        Watch { counter, total: Some(total), ..Watch::default() }
    }

    /// The request to stop, for the work to look at.
    pub fn stop_request(&self) -> Arc<Progress> {
        self.counter.clone()
    }

    /// Notes how far work is: what is done, of how much, and the loss.
    pub fn note(&self, done: u64, total: u64, loss: Option<f64>) {
        *self.at.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((done, total, loss));
    }

    pub fn is_stopped(&self) -> bool {
        self.counter.check().is_err()
    }

    fn stop(&self) {
        self.counter.stop();
    }

    fn at(&self) -> Option<(u64, u64, Option<f64>)> {
        match self.total {
            Some(total) => Some((self.counter.done().min(total), total, None)),
            None => *self.at.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }
}

/// Does work while the interpreter is free. Ctrl-C, and an exception that `listener` raises, stop the work and are raised after it.
pub fn run<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    listener: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> skds::Result<T> + Send,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let mut exception: Option<PyErr> = None;
    let mut shown = None;
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(catch_unwind(AssertUnwindSafe(work))));
        loop {
            let wait = || {
                receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv_timeout(BETWEEN_LOOKS)
            };
            let outcome = py.detach(wait);
            if exception.is_none() {
                let heard = py.check_signals().and_then(|()| tell(watch, listener, &mut shown));
                if let Err(raised) = heard {
                    watch.stop();
                    exception = Some(raised);
                }
            }
            match outcome {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok(Ok(result))) => return exception.map_or(Ok(result), Err),
                Ok(Ok(Err(error))) => return Err(exception.unwrap_or_else(|| raised(error))),
                Ok(Err(panic)) => return Err(panicked(&*panic)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(panicked(&"the worker ended without a result"));
                }
            }
        }
    })
}

/// Tells the listener what is new.
fn tell(
    watch: &Watch,
    listener: Option<&Bound<'_, PyAny>>,
    shown: &mut Option<(u64, u64, Option<f64>)>,
) -> PyResult<()> {
    let Some(listener) = listener else { return Ok(()) };
    let at = watch.at();
    if at != *shown
        && let Some((done, total, loss)) = at
    {
        listener.call1((done, total, loss))?;
        *shown = at;
    }
    Ok(())
}

/// Short work without the interpreter.
pub fn quick<T: Send>(py: Python<'_>, work: impl FnOnce() -> skds::Result<T> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(raised),
        Err(panic) => Err(panicked(&*panic)),
    }
}
