//! The bandwidth: a number, or the median distance in the data.

use crate::data::Dataset;
use crate::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// How the bandwidth h is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bandwidth {
    /// A fixed h > 0.
    Value(f64),
    /// The median distance between two samples of the same environment: with a fixed h the kernel vanishes in
    /// high dimension, where all distances grow like √d.
    Auto,
}

/// Beyond this many pairs the median is taken over random ones; its relative error is then below 1 %.
const MEDIAN_PAIRS: usize = 20_000;

impl Bandwidth {
    /// The number to use on `data`. `seed` determines which pairs are sampled.
    pub fn resolve(self, data: &Dataset, seed: u64) -> Result<f64> {
        match self {
            Bandwidth::Value(h) => Ok(h),
            Bandwidth::Auto => median_distance(data, seed),
        }
    }
}

fn median_distance(data: &Dataset, seed: u64) -> Result<f64> {
    let x = data.samples();
    let square_distance =
        |i: usize, j: usize| x.row(i).iter().zip(x.row(j)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let rows: Vec<_> = (0..data.environments()).map(|e| data.rows(e)).collect();
    let available: f64 = rows.iter().map(|r| r.len() as f64 * (r.len() as f64 - 1.0) / 2.0).sum();
    let mut squares = Vec::new();
    if available <= MEDIAN_PAIRS as f64 {
        for range in rows {
            for i in range.clone() {
                squares.extend((i + 1..range.end).map(|j| square_distance(i, j)));
            }
        }
    } else {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for pair in 0..MEDIAN_PAIRS {
            // Environments take turns, because the loss gives each the same weight, whatever its size.
            let range = &rows[pair % rows.len()];
            let i = rng.random_range(range.clone());
            let step = rng.random_range(1..range.len());
            let j = range.start + (i - range.start + step) % range.len();
            squares.push(square_distance(i, j));
        }
    }
    let middle = squares.len() / 2;
    let median = squares.select_nth_unstable_by(middle, f64::total_cmp).1.sqrt();
    if median > 0.0 && median.is_finite() {
        Ok(median)
    } else {
        Err(Error::invalid(format!(
            "bandwidth 'auto' found a median distance of {median} between samples, expected one above 0: set the bandwidth to a number"
        )))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bandwidth::Value(h) => write!(f, "{h}"),
            Bandwidth::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Bandwidth {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Bandwidth::Auto);
        }
        match text.parse::<f64>() {
            Ok(h) if h > 0.0 && h.is_finite() => Ok(Bandwidth::Value(h)),
            _ => Err(Error::invalid(format!("found '{text}', expected a finite number above 0 or 'auto'"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;

    #[test]
    fn median_of_few_pairs_is_exact() {
        // Distances 1, 3, 2 in the first environment, 10 in the second: sorted 1 2 3 10, upper median 3.
        let first = Matrix::from_rows(3, 1, vec![0.0, 1.0, 3.0]);
        let second = Matrix::from_rows(2, 1, vec![100.0, 110.0]);
        let data = Dataset::from_environments(vec![first, second]).unwrap();
        assert_eq!(Bandwidth::Auto.resolve(&data, 0).unwrap(), 3.0);
    }

    #[test]
    fn sampled_median_is_near_the_exact_one_and_follows_the_seed() {
        // 500 equally spaced points: distances are spread like |U − U'|, median (1 − √½).
        let line = Matrix::from_fn(500, 1, |i, _| i as f64 / 500.0);
        let data = Dataset::from_environments(vec![line]).unwrap();
        let auto = |seed| Bandwidth::Auto.resolve(&data, seed).unwrap();
        assert!((auto(1) - (1.0 - 0.5f64.sqrt())).abs() < 0.01, "{}", auto(1));
        assert_eq!(auto(1), auto(1));
        assert_ne!(auto(1), auto(2));
    }

    #[test]
    fn equal_samples_have_no_median() {
        let data = Dataset::from_environments(vec![Matrix::full(4, 2, 1.0)]).unwrap();
        assert!(Bandwidth::Auto.resolve(&data, 0).unwrap_err().to_string().contains("median distance of 0"));
    }

    #[test]
    fn only_positive_numbers_and_auto_parse() {
        assert_eq!("2.5".parse::<Bandwidth>().unwrap(), Bandwidth::Value(2.5));
        assert_eq!("auto".parse::<Bandwidth>().unwrap(), Bandwidth::Auto);
        for text in ["0", "-1", "NaN", "inf", "wide"] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
    }
}
