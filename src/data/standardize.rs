use super::Dataset;
use crate::Matrix;
use serde::{Deserialize, Serialize};

/// Maps samples to mean 0 and standard deviation 1 in the first environment, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardization {
    /// The mean of each variable.
    pub mean: Vec<f64>,
    /// The standard deviation of each variable.
    pub scale: Vec<f64>,
}

/// A standard deviation below this share of the mean counts as rounding.
const ROUNDING: f64 = 1e-12;

impl Standardization {
    /// Mean and standard deviation (divided by n) of the first environment.
    ///
    /// A variable that is [constant](Dataset::constant_variables) there is scaled by its deviation within the other environments, or
    /// else by its deviation over all environments. A variable that never changes keeps its unit.
    pub fn of(data: &Dataset) -> Self {
        let (mean, scale) = (0..data.dim()).map(|j| of_variable(data, j)).unzip();
        Standardization { mean, scale }
    }

    /// The inverse map, from standard units to the data's.
    pub fn inverse(&self) -> Self {
        Standardization {
            mean: self.mean.iter().zip(&self.scale).map(|(mean, scale)| -mean / scale).collect(),
            scale: self.scale.iter().map(|scale| 1.0 / scale).collect(),
        }
    }

    /// Whether it has a finite mean and a finite scale above 0 for each of `dim` variables.
    pub fn is_valid_for(&self, dim: usize) -> bool {
        self.mean.len() == dim
            && self.scale.len() == dim
            && self.mean.iter().all(|mean| mean.is_finite())
            && self.scale.iter().all(|scale| *scale > 0.0 && scale.is_finite())
    }

    /// A value of variable `j` in standard units.
    pub fn standard(&self, j: usize, value: f64) -> f64 {
        (value - self.mean[j]) / self.scale[j]
    }

    /// The dataset with its samples in standard units.
    pub fn apply(&self, data: &Dataset) -> Dataset {
        let mut standard = data.clone();
        self.apply_to(&mut standard.samples);
        standard
    }

    /// Maps rows from the data's units to standard units.
    pub fn apply_to(&self, samples: &mut Matrix<f64>) {
        for i in 0..samples.rows() {
            for (j, value) in samples.row_mut(i).iter_mut().enumerate() {
                *value = self.standard(j, *value);
            }
        }
    }

    /// Maps rows from standard units back to the data's.
    pub fn undo(&self, samples: &mut Matrix<f64>) {
        for i in 0..samples.rows() {
            for (j, value) in samples.row_mut(i).iter_mut().enumerate() {
                *value = *value * self.scale[j] + self.mean[j];
            }
        }
    }
}

impl Dataset {
    /// The variables that are constant in the first environment.
    pub fn constant_variables(&self) -> Vec<usize> {
        (0..self.dim()).filter(|&j| !varies(moments_of(self, j, [0]))).collect()
    }
}

fn varies((mean, deviation): (f64, f64)) -> bool {
    deviation > ROUNDING * mean.abs()
}

fn of_variable(data: &Dataset, j: usize) -> (f64, f64) {
    let (mean, deviation) = moments_of(data, j, [0]);
    if varies((mean, deviation)) {
        return (mean, deviation);
    }
    let others = 1..data.environments();
    let mut largest: f64 = 0.0;
    for e in others {
        let found = moments_of(data, j, [e]);
        if varies(found) {
            largest = largest.max(found.1);
        }
    }
    let all = moments_of(data, j, 0..data.environments());
    let scale = if largest > 0.0 {
        largest
    } else if varies(all) {
        all.1
    } else {
        1.0
    };
    (mean, scale)
}

/// Mean and standard deviation of a variable in some environments. In parts of the largest value: squares of very large
/// or small ones are neither infinite nor 0.
fn moments_of(data: &Dataset, j: usize, environments: impl IntoIterator<Item = usize> + Clone) -> (f64, f64) {
    let rows = || environments.clone().into_iter().flat_map(|e| data.rows(e));
    let column = || rows().map(|i| data.samples()[(i, j)]);
    let (n, largest) =
        column().fold((0.0, 0.0), |(n, largest): (f64, f64), v| (n + 1.0, largest.max(v.abs())));
    if largest == 0.0 {
        return (0.0, 0.0);
    }
    let mean = column().map(|v| v / largest).sum::<f64>() / n;
    let square = column().map(|v| (v / largest - mean) * (v / largest - mean)).sum::<f64>() / n;
    (mean * largest, square.sqrt() * largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_environment_becomes_standard_and_everything_comes_back() {
        let one = Matrix::from_rows(3, 2, vec![1.0, 10.0, 2.0, 30.0, 3.0, 50.0]);
        let two = Matrix::from_rows(2, 2, vec![5.0, 0.0, -1.0, 7.0]);
        let data = Dataset::from_environments(vec![one, two]).unwrap();
        let standard = Standardization::of(&data);
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
    fn a_constant_variable_is_known_and_not_divided_by() {
        let one = Matrix::from_rows(2, 4, vec![1.0, 4.0, 0.1, 0.3, 2.0, 4.0, 0.1, 0.3]);
        let two = Matrix::from_rows(2, 4, vec![1.0, 4.0, 0.5, 0.7, 3.0, 4.0, 0.9, 0.7]);
        let data = Dataset::from_environments(vec![one, two]).unwrap();
        assert_eq!(data.constant_variables(), [1, 2, 3]);
        let units = Standardization::of(&data);
        // As it is within the other environment; from one to the other; nowhere.
        let expected = [0.5, 1.0, 0.2, 0.2];
        assert!(units.scale.iter().zip(expected).all(|(s, e)| (s - e).abs() < 1e-12), "{units:?}");
        assert_eq!(units.mean[1], 4.0);
    }

    #[test]
    fn extreme_numbers_have_moments() {
        for factor in [1e300, 1e-300] {
            let x = Matrix::from_rows(3, 1, vec![1.0 * factor, 2.0 * factor, 3.0 * factor]);
            let units = Standardization::of(&Dataset::from_environments(vec![x]).unwrap());
            assert!((units.mean[0] / factor - 2.0).abs() < 1e-12);
            assert!((units.scale[0] / factor - (2.0f64 / 3.0).sqrt()).abs() < 1e-12);
        }
    }
}
