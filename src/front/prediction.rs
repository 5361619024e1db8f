//! What a model expects to happen.

use crate::data::Dataset;
use crate::numeric::statistics::quantile;
use crate::{Error, Matrix, Result};
use std::path::Path;

/// Predicted rows, and what they say about each variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    names: Vec<String>,
    rows: Matrix<f64>,
    /// Means before the intervention, where rows were observed.
    before: Option<Vec<f64>>,
}

impl Prediction {
    pub(super) fn new(names: Vec<String>, rows: Matrix<f64>, before: Option<Vec<f64>>) -> Self {
        Prediction { names, rows, before }
    }

    /// The names of the variables, in the order of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The predicted rows, in the data's units. A prediction from observed rows keeps their order.
    pub fn rows(&self) -> &Matrix<f64> {
        &self.rows
    }

    /// The mean of every variable.
    pub fn means(&self) -> Vec<f64> {
        (0..self.names.len()).map(|j| mean(&self.column(j))).collect()
    }

    /// The mean of one variable.
    pub fn mean(&self, variable: &str) -> Result<f64> {
        Ok(mean(&self.column(self.place(variable)?)))
    }

    /// How much the mean of a variable changes; an error if the prediction did not start from observed rows.
    pub fn change(&self, variable: &str) -> Result<f64> {
        let j = self.place(variable)?;
        match &self.before {
            Some(before) => Ok(mean(&self.column(j)) - before[j]),
            None => Err(Error::invalid(
                "the prediction did not start from observed rows, expected one that did to tell a change",
            )),
        }
    }

    /// The central interval that holds `share` of the predicted rows of a variable.
    ///
    /// It describes how rows differ from each other, not how sure the model is of their mean.
    pub fn interval(&self, variable: &str, share: f64) -> Result<(f64, f64)> {
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::invalid(format!(
                "the share of rows in an interval is {share}, expected a number between 0 and 1"
            )));
        }
        let mut values = self.column(self.place(variable)?);
        values.sort_by(f64::total_cmp);
        let tail = 0.5 * (1.0 - share);
        Ok((quantile(&values, tail), quantile(&values, 1.0 - tail)))
    }

    /// Writes the rows to an `.npz`, `.csv` or, with the feature `h5ad`, `.h5ad` file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Dataset::from_environments(vec![self.rows.clone()])?
            .with_names(self.names.clone())?
            .write(path.as_ref())
    }

    fn column(&self, j: usize) -> Vec<f64> {
        (0..self.rows.rows()).map(|i| self.rows[(i, j)]).collect()
    }

    fn place(&self, variable: &str) -> Result<usize> {
        crate::data::position_of(&self.names, variable)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
