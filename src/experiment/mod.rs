//! Comparing methods on many systems: the statistics of it.

mod wilcoxon;

pub use wilcoxon::{Wilcoxon, wilcoxon_below};
