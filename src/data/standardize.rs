use super::Dataset;
use crate::{Error, Matrix, Result};
use serde::{Deserialize, Serialize};

/// Maps samples to mean 0 and standard deviation 1 in the first environment, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardization {
    /// The mean of each variable.
    pub mean: Vec<f64>,
    /// The standard deviation of each variable.
    pub scale: Vec<f64>,
}

impl Standardization {
    /// Mean and standard deviation (divided by n) of the first environment. A constant variable is an error.
    pub fn of(data: &Dataset) -> Result<Self> {
        let rows = data.rows(0);
        let n = rows.len() as f64;
        let column = |j: usize| rows.clone().map(move |i| data.samples()[(i, j)]);
        let mean = data.means(0);
        let scale: Vec<f64> = (0..data.dim())
            .map(|j| (column(j).map(|v| (v - mean[j]) * (v - mean[j])).sum::<f64>() / n).sqrt())
            .collect();
        match scale.iter().position(|s| *s <= 0.0) {
            Some(j) => Err(Error::invalid(format!(
                "variable '{}' is constant in the first environment, expected one that varies: leave it out or do not standardize",
                data.names()[j]
            ))),
            None => Ok(Standardization { mean, scale }),
        }
    }

    /// A value of variable `j` in standard units.
    pub fn standard(&self, j: usize, value: f64) -> f64 {
        (value - self.mean[j]) / self.scale[j]
    }

    /// The samples in standard units.
    pub fn apply(&self, data: &Dataset) -> Dataset {
        let mut standard = data.clone();
        self.apply_to(&mut standard.samples);
        standard
    }

    /// Rows in the data's units in standard ones.
    pub fn apply_to(&self, samples: &mut Matrix<f64>) {
        for i in 0..samples.rows() {
            for (j, value) in samples.row_mut(i).iter_mut().enumerate() {
                *value = self.standard(j, *value);
            }
        }
    }

    /// Rows in standard units back in the data's own.
    pub fn undo(&self, samples: &mut Matrix<f64>) {
        for i in 0..samples.rows() {
            for (j, value) in samples.row_mut(i).iter_mut().enumerate() {
                *value = *value * self.scale[j] + self.mean[j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_environment_becomes_standard_and_everything_comes_back() {
        let one = Matrix::from_rows(3, 2, vec![1.0, 10.0, 2.0, 30.0, 3.0, 50.0]);
        let two = Matrix::from_rows(2, 2, vec![5.0, 0.0, -1.0, 7.0]);
        let data = Dataset::from_environments(vec![one, two]).unwrap();
        let standard = Standardization::of(&data).unwrap();
        let mut samples = standard.apply(&data).samples().clone();
        for j in 0..2 {
            let mean: f64 = (0..3).map(|i| samples[(i, j)]).sum();
            let square: f64 = (0..3).map(|i| samples[(i, j)] * samples[(i, j)]).sum();
            assert!(mean.abs() < 1e-12 && (square - 3.0).abs() < 1e-12);
        }
        standard.undo(&mut samples);
        for (found, expected) in samples.as_slice().iter().zip(data.samples().as_slice()) {
            assert!((found - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn a_constant_variable_is_refused_by_name() {
        let data =
            Dataset::from_environments(vec![Matrix::from_rows(2, 2, vec![1.0, 4.0, 2.0, 4.0])]).unwrap();
        let sentence = Standardization::of(&data).unwrap_err().to_string();
        assert!(sentence.starts_with("variable 'x1' is constant"), "{sentence}");
    }
}
