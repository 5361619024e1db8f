//! Wilcoxon's signed-rank test of whether paired differences tend to be below 0.

/// Up to this many differences the distribution is exact; beyond, the normal approximation is used.
const EXACT: usize = 60;

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Wilcoxon {
    /// The number of differences other than 0.
    pub pairs: usize,
    /// The sum of the ranks of positive differences.
    pub statistic: f64,
    /// The probability of a sum this low if differences are symmetric around 0.
    pub p: f64,
}

/// Tests, one-sided, whether differences tend to be below 0.
///
/// Zeros are left out and ties share their ranks. The distribution accounts for both, and is exact for up to 60 differences.
///
/// ```
/// use skds::experiment::wilcoxon_below;
///
/// // All of five differences are negative: one of 32 signs.
/// assert_eq!(wilcoxon_below(&[-1.0, -2.0, -0.5, -4.0, -3.0]).p, 1.0 / 32.0);
/// ```
pub fn wilcoxon_below(differences: &[f64]) -> Wilcoxon {
    let mut kept: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    kept.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = kept.len();
    // Twice the ranks: those of ties are halves.
    let mut ranks = vec![0usize; n];
    let mut first = 0;
    while first < n {
        let last = first + kept[first..].iter().take_while(|d| d.abs() == kept[first].abs()).count();
        ranks[first..last].fill(first + last + 1);
        first = last;
    }
    let statistic: usize = kept.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let p = match n {
        0 => 1.0,
        _ if n <= EXACT => counted(&ranks, statistic),
        _ => normal(&ranks, statistic),
    };
    Wilcoxon { pairs: n, statistic: 0.5 * statistic as f64, p }
}

/// The share of all choices of signs whose sum of positive ranks is at most `statistic`.
fn counted(ranks: &[usize], statistic: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let mut shares = vec![0.0; total + 1];
    shares[0] = 1.0;
    for &rank in ranks {
        for sum in (0..=total).rev() {
            let with = if sum >= rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = 0.5 * (shares[sum] + with);
        }
    }
    shares[..=statistic].iter().sum::<f64>().min(1.0)
}

/// The same by the normal distribution with the same mean and variance, with a continuity correction.
fn normal(ranks: &[usize], statistic: usize) -> f64 {
    let mean = 0.5 * ranks.iter().sum::<usize>() as f64;
    let variance = 0.25 * ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>();
    // Ranks are doubled, and so is the correction by one half.
    below((statistic as f64 + 1.0 - mean) / variance.sqrt())
}

/// The normal distribution function, by a continued fraction in the tails and a series between.
fn below(z: f64) -> f64 {
    let tail = |z: f64| {
        let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        match z < 3.0 {
            // ½ − φ(z) Σ z^(2k+1) / (1·3·…·(2k+1)).
            true => {
                let (mut term, mut sum) = (z, z);
                for k in 1..200 {
                    term *= z * z / f64::from(2 * k + 1);
                    sum += term;
                }
                0.5 - density * sum
            }
            // φ(z) / (z + 1/(z + 2/(z + …))).
            false => density / (1..100).rev().fold(z, |inner, k| z + f64::from(k) / inner),
        }
    };
    if z < 0.0 { tail(-z) } else { 1.0 - tail(z) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12 + 1e-9 * b, "{a} {b}");
    }

    /// Depression scale factors of nine patients before and after therapy (Hollander and Wolfe, 1973): the sum of positive
    /// ranks is 40, the one-sided probability 10/512.
    #[test]
    fn published_values() {
        // In thousandths.
        let before = [1830.0, 500.0, 1620.0, 2480.0, 1680.0, 1880.0, 1550.0, 3060.0, 1300.0];
        let after = [878.0, 647.0, 598.0, 2050.0, 1060.0, 1290.0, 1060.0, 3140.0, 1290.0];
        let risen: Vec<f64> = before.iter().zip(after).map(|(b, a)| a - b).collect();
        let found = wilcoxon_below(&risen);
        assert_eq!((found.pairs, found.statistic), (9, 5.0));
        close(found.p, 10.0 / 512.0);
        let fallen: Vec<f64> = risen.iter().map(|d| -d).collect();
        assert_eq!(wilcoxon_below(&fallen).statistic, 40.0);
        // Critical values of the usual table: n = 10 and a sum of 10 has 0.0420, n = 20 and 60 has 0.0487.
        let with_sum = |n: usize, sum: usize| {
            // Positive ranks that add up to `sum`, the largest first.
            let mut left = sum;
            let mut all: Vec<f64> = (1..=n).map(|rank| -(rank as f64)).collect();
            for rank in (1..=n).rev() {
                if rank <= left {
                    all[rank - 1] = rank as f64;
                    left -= rank;
                }
            }
            wilcoxon_below(&all)
        };
        assert!((with_sum(10, 10).p - 0.0420).abs() < 5e-5);
        assert!((with_sum(20, 60).p - 0.0487).abs() < 5e-5);
    }

    #[test]
    fn ties_and_zeros_are_counted_by_hand() {
        // |d| = 1, 1, 2 with ranks 1.5, 1.5, 3: sums 0, 1.5, 1.5, 3, 3, 4.5, 4.5, 6.
        let found = wilcoxon_below(&[1.0, -1.0, 0.0, -2.0]);
        assert_eq!((found.pairs, found.statistic, found.p), (3, 1.5, 3.0 / 8.0));
        assert_eq!(wilcoxon_below(&[0.0, 0.0]), Wilcoxon { pairs: 0, statistic: 0.0, p: 1.0 });
        assert_eq!(wilcoxon_below(&[2.0]).p, 1.0);
    }

    #[test]
    fn the_normal_approximation_continues_the_exact_distribution() {
        let differences: Vec<f64> =
            (1..=60).map(|k| if k % 3 == 0 { f64::from(k) } else { -f64::from(k) }).collect();
        let exact = wilcoxon_below(&differences).p;
        let ranks: Vec<usize> = (1..=60).map(|k| 2 * k).collect();
        let positive: usize = (1..=20).map(|k| 6 * k).sum();
        let approximate = normal(&ranks, positive);
        assert!((exact - approximate).abs() < 0.02 * exact, "{exact} {approximate}");
        // Values of the normal distribution function.
        close(below(0.0), 0.5);
        close(below(-1.959963984540054), 0.025);
        close(below(1.0), 0.8413447460685429);
        close(below(-6.0), 9.865876450376946e-10);
    }
}
