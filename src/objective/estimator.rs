use crate::named::named;

/// Which pairs of an environment's n samples the loss averages over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// Rows (0, 1), (2, 3), …; an odd last row is dropped. The paper's equation "empirical estimate SKDS".
    Linear,
    /// All ordered pairs of different rows: unbiased, least noise.
    U,
    /// All ordered pairs: biased by the diagonal, never negative.
    V,
}

impl Estimator {
    /// The number of pairs among n samples.
    ///
    /// ```
    /// use skds::objective::Estimator;
    /// assert_eq!([Estimator::Linear, Estimator::U, Estimator::V].map(|e| e.pairs(5)), [2, 20, 25]);
    /// ```
    pub fn pairs(self, n: usize) -> u64 {
        let n = n as u64;
        match self {
            Estimator::Linear => n / 2,
            Estimator::U => n * n.saturating_sub(1),
            Estimator::V => n * n,
        }
    }
}

named!(Estimator, "estimator", { Linear => "linear", U => "u", V => "v" });
