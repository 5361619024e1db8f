//! Measures how long losses, training steps and fits take, compared with each other and with the machine's limits.
//!
//! Everything that is compared runs in turns ([`race`]) in one process, or side by side for [`peers`]. Other programs on the
//! machine therefore slow all sides equally. Times are medians, and the report warns when they vary too much to compare. Each
//! section yields [`Measurement`]s, which are written as text, JSON, csv and pictures ([`report`]).

pub mod machine;
mod measurement;
pub mod memory;
pub mod paper;
pub mod peers;
mod problem;
pub mod report;
pub mod roofline;
pub mod scaling;
mod timing;
pub mod training;

pub use machine::Machine;
pub use measurement::Measurement;
pub use problem::{Case, random_problem};
pub use timing::{Contender, Effort, Ratio, Steadiness, Timing, race};

use crate::Result;
use crate::engine::Place;

/// A contender that evaluates a loss and its gradient.
fn evaluation(place: &Place, case: Case) -> Result<Contender<'static>> {
    let (data, parameters) = random_problem(case.n, case.d);
    let mut loss = place.load(&data, &case.spec()?)?;
    let mut gradient = parameters.zeros_like();
    Ok(Contender::new(case.name(), move || loss.evaluate(&parameters, Some(&mut gradient))))
}
