use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

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
    /// Every estimator there is.
    pub const ALL: [Estimator; 3] = [Estimator::Linear, Estimator::U, Estimator::V];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Estimator::Linear => "linear",
            Estimator::U => "u",
            Estimator::V => "v",
        }
    }

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

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Estimator {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Estimator::ALL
            .into_iter()
            .find(|e| e.name() == name)
            .ok_or_else(|| Error::invalid(format!("unknown estimator '{name}', expected linear, u or v")))
    }
}
