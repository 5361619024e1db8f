//! Arrays between numpy and the library.

use crate::errors::invalid;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use skds::Matrix;
use skds::model::{Parameters, Tensor};

/// A named array: its shape and entries.
pub type NamedArray<'py> = (String, Vec<usize>, Bound<'py, PyArray1<f64>>);

/// A matrix as a numpy array, which takes its memory over.
pub fn array<'py, T: numpy::Element + Copy>(
    py: Python<'py>,
    matrix: Matrix<T>,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let shape = [matrix.rows(), matrix.cols()];
    PyArray1::from_vec(py, matrix.into_vec()).reshape(shape)
}

/// A copy of a numpy array.
pub fn matrix<T: numpy::Element + Copy>(array: &PyReadonlyArray2<'_, T>) -> Matrix<T> {
    let view = array.as_array();
    let (rows, cols) = view.dim();
    match view.as_slice() {
        Some(values) => Matrix::from_rows(rows, cols, values.to_vec()),
        None => Matrix::from_fn(rows, cols, |i, j| view[(i, j)]),
    }
}

/// The entries of a vector, which lie one after the other.
pub fn entries<'a, T: numpy::Element>(array: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| invalid("an array has gaps in memory, expected numbers one after the other"))
}

/// All parameters by name.
pub fn named_arrays<'py>(py: Python<'py>, parameters: &Parameters<f64>) -> Vec<NamedArray<'py>> {
    let of = |t: Tensor<'_, f64>| (t.name.to_owned(), t.shape, PyArray1::from_slice(py, t.values));
    parameters.tensors().into_iter().map(of).collect()
}
