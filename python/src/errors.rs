//! Errors of the library as Python's exceptions, with the library's sentences.

use pyo3::create_exception;
use pyo3::exceptions::{
    PyException, PyFileNotFoundError, PyIsADirectoryError, PyOSError, PyPermissionError, PyValueError,
};
use pyo3::prelude::*;
use std::any::Any;
use std::io::ErrorKind;

create_exception!(
    skds,
    Error,
    PyException,
    "A computation on valid input failed: it has no finite result, a device failed, or the work was stopped."
);

/// The exception for an error: wrong input is a `ValueError`, a file that cannot be read an `OSError`, and a computation that failed
/// an `Error` of this package.
pub fn raised(error: skds::Error) -> PyErr {
    let sentence = error.to_string();
    match &error {
        skds::Error::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => PyFileNotFoundError::new_err(sentence),
            ErrorKind::PermissionDenied => PyPermissionError::new_err(sentence),
            ErrorKind::IsADirectory => PyIsADirectoryError::new_err(sentence),
            _ => PyOSError::new_err(sentence),
        },
        skds::Error::File { .. } | skds::Error::Invalid(_) => PyValueError::new_err(sentence),
        _ => Error::new_err(sentence),
    }
}

/// A panic is a bug of the library; the interpreter goes on.
pub fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    Error::new_err(format!("internal error: {text}"))
}

/// An exception for a value that Python gave.
pub fn invalid(problem: impl Into<String>) -> PyErr {
    PyValueError::new_err(problem.into())
}

/// Text that Python gave as JSON.
pub fn parsed<V: serde::de::DeserializeOwned>(what: &str, text: &str) -> PyResult<V> {
    serde_json::from_str(text).map_err(|error| {
        // The place in the text means nothing to people who never saw it.
        let sentence = error.to_string();
        let sentence = sentence.split(" at line ").next().unwrap_or(&sentence).to_owned();
        invalid(format!("{what}: {sentence}"))
    })
}

/// A report as JSON.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain values serialise")
}
