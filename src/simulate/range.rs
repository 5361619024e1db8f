//! Ranges of numbers, as settings give them, and draws from them.

use crate::named::by_name;
use crate::{Error, Result};
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

/// The numbers from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.low, self.high)
    }
}

impl std::str::FromStr for Range {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let ends = text.split_once("..").map(|(low, high)| (low.trim().parse(), high.trim().parse()));
        match ends {
            Some((Ok(low), Ok(high))) if f64::is_finite(low) && f64::is_finite(high) && low <= high => {
                Ok(Range { low, high })
            }
            _ => Err(Error::invalid(format!("the range is '{text}', expected LOW..HIGH, like 1..3"))),
        }
    }
}

impl Serialize for Range {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        by_name::deserialize(deserializer)
    }
}

impl Range {
    pub(super) fn draw(&self, rng: &mut impl Rng) -> f64 {
        let share: f64 = rng.random_range(0.0..1.0);
        self.low + share * (self.high - self.low)
    }

    /// A number with a random sign.
    pub(super) fn draw_signed(&self, rng: &mut impl Rng) -> f64 {
        let size = self.draw(rng);
        if rng.random_bool(0.5) { size } else { -size }
    }
}
