//! Compares methods on many systems: the paper's experiment, and your own.
//!
//! An [`ExperimentPlan`] names systems, seeds and methods. A [`Runner`] runs each [`Method`] on each dataset and keeps every
//! [`MethodRun`], a cell of the experiment, in a file of its own. Nothing is therefore computed twice, and shards of an experiment can share a folder.
//! Medians and Wilcoxon's signed-rank test ([`wilcoxon_below`]) tell which method is better, and box plots show the
//! distances. [`Figure1`] is the paper's Figure 1.

mod figure1;
mod method;
mod picture;
mod plan;
mod program;
mod run;
mod table;
mod wilcoxon;

pub use figure1::{Figure1, Figure1Numbers};
pub use method::{FittedMethod, Method, MethodSettings, PredictionTask};
pub(crate) use picture::box_panels;
pub use plan::{DatasetPlace, ExperimentPlan, MethodPlan, Published, Shard, SystemPlan};
pub(crate) use program::end_programs;
pub use run::{InterventionResult, MethodRun, Observer, Runner};
pub(crate) use table::{
    Measure, Summary, beside_published_text, medians_text, published_text, seconds_text, significance_text,
    summaries,
};
pub use wilcoxon::{Wilcoxon, wilcoxon_below};
