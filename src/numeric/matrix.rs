//! A dense row-major matrix: the one container that data, parameters and engines share.

use faer::{MatMut, MatRef};

/// `rows` × `cols` numbers, row after row.
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

    /// Takes `data` as the rows of a matrix.
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

    /// Rows `range` as one slice.
    pub fn rows_slice(&self, range: std::ops::Range<usize>) -> &[T] {
        &self.data[range.start * self.cols..range.end * self.cols]
    }

    /// The same matrix with every entry converted.
    pub fn map<U: Copy>(&self, convert: impl FnMut(T) -> U) -> Matrix<U> {
        Matrix { rows: self.rows, cols: self.cols, data: self.data.iter().copied().map(convert).collect() }
    }

    /// A view for matrix products.
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.data, self.rows, self.cols)
    }

    /// A writable view for matrix products.
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
