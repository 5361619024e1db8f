//! The dense row-major matrix that data, parameters and engines share.

use faer::{MatMut, MatRef};

/// A dense matrix that stores its rows one after another.
///
/// It converts from and to the matrices of faer, and with the feature `ndarray` from and to two-dimensional arrays of ndarray:
///
/// ```
/// use faer::{Mat, MatRef};
/// use skds::Matrix;
///
/// let matrix = Matrix::from_rows(2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let view: MatRef<'_, f64> = (&matrix).into(); // copies nothing
/// let product: Mat<f64> = view * view.transpose();
/// assert_eq!(Matrix::from(product).row(0), [14.0, 32.0]);
/// ```
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::{Array2, array};
/// use skds::Matrix;
///
/// let matrix = Matrix::from(array![[1.0, 2.0], [3.0, 4.0]]); // takes over the memory
/// assert_eq!(matrix.row(1), [3.0, 4.0]);
/// let back: Array2<f64> = matrix.into();
/// assert_eq!(back.sum(), 10.0);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    rows: usize,
    cols: usize,
    data: Vec<T>,
}

impl<T: Copy> Matrix<T> {
    /// A matrix with every entry `value`.
    pub fn full(rows: usize, cols: usize, value: T) -> Self {
        Matrix { rows, cols, data: vec![value; rows * cols] }
    }

    /// A matrix with the rows `data`, one after another.
    ///
    /// # Panics
    /// If `data` does not hold exactly `rows * cols` entries.
    pub fn from_rows(rows: usize, cols: usize, data: Vec<T>) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows}x{cols} matrix needs {} entries", rows * cols);
        Matrix { rows, cols, data }
    }

    /// The matrix whose entry (i, j) is `entry(i, j)`.
    pub fn from_fn(rows: usize, cols: usize, mut entry: impl FnMut(usize, usize) -> T) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        for i in 0..rows {
            data.extend((0..cols).map(|j| entry(i, j)));
        }
        Matrix { rows, cols, data }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Row `i`, writable.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// All entries, row after row.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// All entries, row after row, writable.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// All entries, row after row, without a copy.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// The rows in `range` as one slice.
    pub fn rows_slice(&self, range: std::ops::Range<usize>) -> &[T] {
        &self.data[range.start * self.cols..range.end * self.cols]
    }

    /// The matrix of `convert(entry)` for every entry.
    pub fn map<U: Copy>(&self, convert: impl FnMut(T) -> U) -> Matrix<U> {
        Matrix { rows: self.rows, cols: self.cols, data: self.data.iter().copied().map(convert).collect() }
    }

    /// A faer view, which copies nothing.
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.data, self.rows, self.cols)
    }

    /// A writable faer view, which copies nothing.
    pub fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut::from_row_major_slice_mut(&mut self.data, self.rows, self.cols)
    }
}

impl<T> std::ops::Index<(usize, usize)> for Matrix<T> {
    type Output = T;

    fn index(&self, (i, j): (usize, usize)) -> &T {
        &self.data[i * self.cols + j]
    }
}

impl<T> std::ops::IndexMut<(usize, usize)> for Matrix<T> {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut T {
        &mut self.data[i * self.cols + j]
    }
}
