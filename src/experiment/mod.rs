//! Comparing methods on many systems: the paper's experiment, and anyone's.
//!
//! A [`Plan`] names systems, seeds and methods; a [`Runner`] computes one cell, a dataset and a [`Method`], after the other and
//! keeps each as a file, so that nothing is computed twice and shards of an experiment can share a folder; medians and
//! Wilcoxon's tests ([`wilcoxon_below`]) tell who is better.

mod method;
mod plan;
mod program;
mod run;
mod table;
mod wilcoxon;

pub use method::{Fitted, Method, MethodSettings, Told};
pub use plan::{DatasetPlace, MethodPlan, Plan, Shard, SystemPlan};
pub use run::{Cell, Observer, Row, Runner};
pub use table::{Measure, Summary, comparison, medians_text, significance_text, summaries};
pub use wilcoxon::{Wilcoxon, wilcoxon_below};
