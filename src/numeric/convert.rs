//! Conversions between [`Matrix`] and the matrices of other crates. They copy only where the memory layouts differ.

use super::Matrix;
use faer::{Mat, MatRef};

/// Copies the entries: faer's views have strides of their own.
impl<T: Copy> From<MatRef<'_, T>> for Matrix<T> {
    fn from(view: MatRef<'_, T>) -> Self {
        Matrix::from_fn(view.nrows(), view.ncols(), |i, j| view[(i, j)])
    }
}

/// Copies the entries: faer stores columns, [`Matrix`] stores rows.
impl<T: Copy> From<Mat<T>> for Matrix<T> {
    fn from(matrix: Mat<T>) -> Self {
        matrix.as_ref().into()
    }
}

/// Copies the entries: faer stores columns, [`Matrix`] stores rows.
impl<T: Copy> From<&Matrix<T>> for Mat<T> {
    fn from(matrix: &Matrix<T>) -> Self {
        Mat::from_fn(matrix.rows(), matrix.cols(), |i, j| matrix[(i, j)])
    }
}

/// Copies nothing.
impl<'a, T: Copy> From<&'a Matrix<T>> for MatRef<'a, T> {
    fn from(matrix: &'a Matrix<T>) -> Self {
        matrix.view()
    }
}

/// Takes over the memory of an array in standard layout, and copies the entries of any other.
#[cfg(feature = "ndarray")]
impl<T: Copy> From<ndarray::Array2<T>> for Matrix<T> {
    fn from(array: ndarray::Array2<T>) -> Self {
        let (rows, cols) = array.dim();
        if !array.is_standard_layout() {
            return array.view().into();
        }
        match array.into_raw_vec_and_offset() {
            (data, None | Some(0)) if data.len() == rows * cols => Matrix::from_rows(rows, cols, data),
            // A slice of a larger array.
            (data, start) => {
                let start = start.unwrap_or(0);
                Matrix::from_rows(rows, cols, data[start..start + rows * cols].to_vec())
            }
        }
    }
}

/// Copies the entries.
#[cfg(feature = "ndarray")]
impl<T: Copy> From<ndarray::ArrayView2<'_, T>> for Matrix<T> {
    fn from(view: ndarray::ArrayView2<'_, T>) -> Self {
        let (rows, cols) = view.dim();
        Matrix::from_rows(rows, cols, view.iter().copied().collect())
    }
}

/// Takes over the memory of the matrix.
#[cfg(feature = "ndarray")]
impl<T: Copy> From<Matrix<T>> for ndarray::Array2<T> {
    fn from(matrix: Matrix<T>) -> Self {
        let shape = (matrix.rows(), matrix.cols());
        ndarray::Array2::from_shape_vec(shape, matrix.into_vec())
            .expect("a matrix has rows × columns entries")
    }
}

/// Copies nothing.
#[cfg(feature = "ndarray")]
impl<'a, T: Copy> From<&'a Matrix<T>> for ndarray::ArrayView2<'a, T> {
    fn from(matrix: &'a Matrix<T>) -> Self {
        let shape = (matrix.rows(), matrix.cols());
        ndarray::ArrayView2::from_shape(shape, matrix.as_slice())
            .expect("a matrix has rows × columns entries")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entry (i, j) is 10 i + j, so that no transposition goes unseen.
    fn matrix() -> Matrix<f64> {
        Matrix::from_fn(2, 3, |i, j| (10 * i + j) as f64)
    }

    #[test]
    fn faer_matrices_and_views_come_back() {
        let own = Mat::from(&matrix());
        assert_eq!((own.nrows(), own.ncols(), own[(1, 2)]), (2, 3, 12.0));
        assert_eq!(Matrix::from(own.as_ref()), matrix());
        let transposed = Matrix::from(own.transpose());
        assert_eq!((transposed.rows(), transposed[(2, 1)]), (3, 12.0));
        assert_eq!(Matrix::from(own), matrix());
        let matrix = matrix();
        let view = MatRef::from(&matrix);
        assert_eq!((view.nrows(), view[(1, 0)]), (2, 10.0));
        assert!(std::ptr::eq(&view[(0, 0)], &matrix[(0, 0)]), "a view copies nothing");
        let empty = Matrix::<f64>::full(0, 3, 0.0);
        assert_eq!(Matrix::from(Mat::from(&empty)), empty);
    }

    #[cfg(feature = "ndarray")]
    #[test]
    fn ndarrays_come_back_whatever_their_layout() {
        use ndarray::{Array2, ArrayView2, Axis, Slice};

        let (matrix, at) = (matrix(), |array: &Matrix<f64>| array.as_slice().as_ptr());
        let before = at(&matrix);
        let array = Array2::from(matrix.clone());
        let part = |axis: usize, range: Slice| {
            let mut part = array.clone();
            part.slice_axis_inplace(Axis(axis), range);
            Matrix::from(part)
        };
        assert_eq!((array.dim(), array[(1, 2)]), ((2, 3), 12.0));
        assert_eq!(Matrix::from(array.view()), matrix);
        assert_eq!(Matrix::from(array.clone().reversed_axes())[(2, 1)], 12.0);
        let bottom = part(0, Slice::from(1..));
        assert_eq!((bottom.rows(), bottom.as_slice()), (1, &[10.0, 11.0, 12.0][..]));
        let top = part(0, Slice::from(..1));
        assert_eq!((top.rows(), top.as_slice()), (1, &[0.0, 1.0, 2.0][..]));
        let right = part(1, Slice::from(1..));
        assert_eq!(right.as_slice(), [1.0, 2.0, 11.0, 12.0]);
        assert_eq!(ArrayView2::from(&matrix)[(1, 0)], 10.0);
        let back = Matrix::from(Array2::from(matrix));
        assert_eq!(at(&back), before, "nothing is copied between standard layouts");
        let empty = Matrix::<f64>::full(0, 3, 0.0);
        assert_eq!(Matrix::from(Array2::from(empty.clone())), empty);
    }
}
