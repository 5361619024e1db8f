//! Comparing methods on many systems: the paper's experiment, and anyone's.
//!
//! A [`Plan`] names systems, seeds and methods; a [`Runner`] computes one cell, a dataset and a [`Method`], after the other and
//! keeps each as a file, so that nothing is computed twice and shards of an experiment can share a folder; medians and
//! Wilcoxon's tests ([`wilcoxon_below`]) tell who is better, and [`box_panels`] show it. [`Figure1`] is the paper's.

mod figure1;
mod method;
mod picture;
mod plan;
mod program;
mod run;
mod table;
mod wilcoxon;

pub use figure1::{Figure1, Figure1Numbers};
pub use method::{Fitted, Method, MethodSettings, Told};
pub use picture::box_panels;
pub use plan::{DatasetPlace, MethodPlan, Plan, Published, Shard, SystemPlan};
pub use program::end_programs;
pub use run::{Cell, Observer, Row, Runner};
pub use table::{
    Measure, Summary, comparison, medians_text, published_text, seconds_text, significance_text, summaries,
};
pub use wilcoxon::{Wilcoxon, wilcoxon_below};
