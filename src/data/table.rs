//! A dataset of one table in memory: all rows together, and the environment of each.

use super::read::Raw;
use super::{Dataset, check_names, default_names};
use crate::{Error, Matrix, Result};

impl Dataset {
    /// A dataset of a table of samples, one per row; `env` is the environment of each row, all in one without it. As in
    /// an `.npz` file, data with several environments needs `targets`, environments × variables.
    ///
    /// ```
    /// use skds::Matrix;
    /// use skds::data::Dataset;
    ///
    /// let samples = Matrix::from_rows(4, 1, vec![0.1, 5.25, -0.3, 4.75]);
    /// let targets = Matrix::from_rows(2, 1, vec![false, true]);
    /// let data = Dataset::from_table(samples, Some(&[0, 1, 0, 1]), Some(targets), None)?;
    /// assert_eq!(data.means(1), [5.0]);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn from_table(
        samples: Matrix<f64>,
        env: Option<&[i64]>,
        targets: Option<Matrix<bool>>,
        names: Option<Vec<String>>,
    ) -> Result<Dataset> {
        let (rows, dim) = (samples.rows(), samples.cols());
        if dim == 0 {
            return Err(Error::invalid("the table has 0 columns, expected at least one"));
        }
        if let Some(at) = samples.as_slice().iter().position(|value| !value.is_finite()) {
            let (value, row, column) = (samples.as_slice()[at], at / dim, at % dim);
            return Err(Error::invalid(format!(
                "the table holds {value} at row {row}, column {column}, expected a finite number"
            )));
        }
        let names = names.unwrap_or_else(|| default_names(dim));
        check_names(&names, dim).map_err(Error::Invalid)?;
        let env = env.unwrap_or_default();
        if !env.is_empty() && env.len() != rows {
            return Err(Error::invalid(format!(
                "there are {} environment numbers for {rows} rows, expected one for each",
                env.len()
            )));
        }
        let largest = env.iter().copied().max().unwrap_or(0);
        let targets = match targets {
            Some(targets) => targets,
            None if largest == 0 => Matrix::full(1, dim, false),
            None => {
                return Err(Error::invalid(format!(
                    "the data has {} environments but no targets, expected which variables each intervenes on",
                    largest.saturating_add(1)
                )));
            }
        };
        if targets.cols() != dim || targets.rows() == 0 {
            return Err(Error::invalid(format!(
                "targets have the shape [{}, {}], expected one row per environment and {dim} columns, one per variable",
                targets.rows(),
                targets.cols()
            )));
        }
        let environments = targets.rows();
        let number = |&e: &i64| {
            usize::try_from(e).ok().filter(|e| *e < environments).ok_or_else(|| {
                Error::invalid(format!(
                    "an environment number is {e}, expected 0 to {}, as targets have {environments} rows",
                    environments - 1
                ))
            })
        };
        let env = env.iter().map(number).collect::<Result<Vec<_>>>()?;
        Raw { samples, env, targets, names }.gather().map_err(Error::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(env: Option<&[i64]>, targets: Option<Matrix<bool>>, names: Option<Vec<String>>) -> String {
        let samples = Matrix::from_fn(4, 2, |i, j| (i + j) as f64);
        Dataset::from_table(samples, env, targets, names).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let two = || Some(Matrix::full(2, 2, false));
        for (sentence, piece) in [
            (refused(Some(&[0, 1, 0]), two(), None), "3 environment numbers for 4 rows"),
            (refused(Some(&[0, 1, 0, 2]), two(), None), "is 2, expected 0 to 1"),
            (refused(Some(&[0, -1, 0, 1]), two(), None), "is -1, expected 0 to 1"),
            (refused(Some(&[0, 1, 0, 1]), None, None), "2 environments but no targets"),
            (refused(Some(&[0, 0, 0, 1]), two(), None), "environment 1 has 1 row"),
            (
                refused(None, Some(Matrix::full(1, 3, false)), None),
                "shape [1, 3], expected one row per environment and 2",
            ),
            (refused(None, None, Some(vec!["a".into(), "a".into()])), "the name `a` appears twice"),
        ] {
            assert!(sentence.contains(piece), "{sentence}");
        }
        let samples = Matrix::from_rows(2, 2, vec![0.0, 1.0, f64::NAN, 2.0]);
        let sentence = Dataset::from_table(samples, None, None, None).unwrap_err().to_string();
        assert_eq!(sentence, "the table holds NaN at row 1, column 0, expected a finite number");
        let none = Dataset::from_table(Matrix::full(0, 2, 0.0), None, None, None).unwrap_err().to_string();
        assert_eq!(none, "environment 0 has no rows, expected at least 2");
    }

    #[test]
    fn one_environment_may_have_targets_too() {
        let samples = Matrix::from_fn(4, 2, |i, j| (i + j) as f64);
        let targets = Matrix::from_rows(1, 2, vec![false, true]);
        let data = Dataset::from_table(samples.clone(), None, Some(targets), None).unwrap();
        assert_eq!((data.environments(), data.observational()), (1, None));
        assert_eq!(data.samples(), &samples);
    }
}
