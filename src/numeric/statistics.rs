//! Means, deviations and medians of plain lists and of columns.

use super::Matrix;

/// The median; NaN of an empty list.
pub(crate) fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    0.5 * (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2])
}

/// The value below which a share of sorted, non-empty values lies, between neighbours in proportion.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// The mean and its standard error.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (spread / n).sqrt())
}

/// The mean and the standard deviation (divided by n) of each column.
pub(crate) fn moments(x: &Matrix<f64>) -> (Vec<f64>, Vec<f64>) {
    let n = x.rows() as f64;
    let column = |j: usize| (0..x.rows()).map(move |i| x[(i, j)]);
    let means: Vec<f64> = (0..x.cols()).map(|j| column(j).sum::<f64>() / n).collect();
    let deviation = |j: usize| (column(j).map(|v| (v - means[j]) * (v - means[j])).sum::<f64>() / n).sqrt();
    let deviations = (0..x.cols()).map(deviation).collect();
    (means, deviations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn quantiles_are_in_proportion_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0];
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&sorted, share)),
            [1.0, 1.5, 2.0, 3.0, 4.0]
        );
        assert_eq!(quantile(&[7.0], 0.3), 7.0);
    }

    #[test]
    fn errors_and_deviations_divide_by_what_they_say() {
        let (mean, error) = mean_and_error(&[1.0, 3.0]);
        assert_eq!((mean, error), (2.0, 1.0));
        let (means, deviations) = moments(&Matrix::from_rows(2, 1, vec![1.0, 3.0]));
        assert_eq!((means[0], deviations[0]), (2.0, 1.0));
    }
}
