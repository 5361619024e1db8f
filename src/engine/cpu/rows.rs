//! Samples as rows padded with zeros to whole vectors.

use crate::Scalar;
use crate::numeric::simd::{LANES, padded};
use faer::{MatMut, MatRef};

/// n rows of d numbers, each row padded with zeros to a multiple of [`LANES`].
///
/// Zeros add nothing to an inner product, so loops run over whole vectors and need no tail.
/// Nothing but zero may be written to the padding.
#[derive(Clone, Debug)]
pub(super) struct Rows<T> {
    rows: usize,
    dim: usize,
    stride: usize,
    data: Vec<T>,
}

impl<T: Scalar> Rows<T> {
    pub(super) fn zeros(rows: usize, dim: usize) -> Self {
        let stride = padded(dim);
        Rows { rows, dim, stride, data: vec![T::ZERO; rows * stride] }
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Row `i`, padding included.
    pub(super) fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.stride..(i + 1) * self.stride]
    }

    /// Row `i`, padding included, writable.
    pub(super) fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.stride..(i + 1) * self.stride]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Rows `range`, padding included.
    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> &[T] {
        &self.data[range.start * self.stride..range.end * self.stride]
    }

    /// Rows `range`, padding included, writable.
    pub(super) fn slice_mut(&mut self, range: std::ops::Range<usize>) -> &mut [T] {
        &mut self.data[range.start * self.stride..range.end * self.stride]
    }

    /// Rows `range` without their padding, for matrix products.
    pub(super) fn view(&self, range: std::ops::Range<usize>) -> MatRef<'_, T> {
        strided(self.slice(range.clone()), range.len(), self.dim, self.stride)
    }

    /// Rows `range` without their padding, for matrix products, writable.
    pub(super) fn view_mut(&mut self, range: std::ops::Range<usize>) -> MatMut<'_, T> {
        let (dim, stride) = (self.dim, self.stride);
        strided_mut(self.slice_mut(range.clone()), range.len(), dim, stride)
    }

    /// All rows with their stride.
    pub(super) fn sample_rows(&self) -> SampleRows<'_, T> {
        SampleRows { data: &self.data, n: self.rows, p: self.dim, stride: self.stride }
    }

    /// All rows.
    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.rows
    }
}

/// One row per sample: n × p numbers in rows that lie `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct SampleRows<'a, T> {
    pub data: &'a [T],
    pub n: usize,
    pub p: usize,
    pub stride: usize,
}

/// `rows` × `cols` of a row-major slice whose rows lie `stride` apart; the slice may begin inside a row.
pub(super) fn strided<T: Scalar>(slice: &[T], rows: usize, cols: usize, stride: usize) -> MatRef<'_, T> {
    // The view ends with the last row's columns, not with its padding.
    let length = if rows == 0 { 0 } else { (rows - 1) * stride + cols };
    MatRef::from_row_major_slice_with_stride(&slice[..length], rows, cols, stride)
}

/// Like [`strided`], writable.
pub(super) fn strided_mut<T: Scalar>(
    slice: &mut [T],
    rows: usize,
    cols: usize,
    stride: usize,
) -> MatMut<'_, T> {
    let length = if rows == 0 { 0 } else { (rows - 1) * stride + cols };
    // faer 0.24's own strided row-major constructor swaps the strides in its writable form; a transposed
    // column-major view does not.
    MatMut::from_column_major_slice_with_stride_mut(&mut slice[..length], cols, rows, stride).transpose_mut()
}

const _: () = assert!(LANES.is_power_of_two());
