//! Measuring: how long losses, training steps and fits take, beside each other and beside what the machine can do.
//!
//! Everything that is compared runs in one process (or, for [`peers`], side by side) and in turns ([`race`]), so that whatever
//! else the machine does hits all sides alike. Times are medians; the spread is stated, and a comparison that drowns in it is
//! said to. Each section gives [`Record`]s, which become text, JSON, csv and pictures ([`report`]).

pub mod machine;
pub mod memory;
pub mod paper;
pub mod peers;
mod problem;
mod record;
pub mod report;
pub mod roofline;
pub mod scaling;
mod timing;
pub mod training;

pub use machine::Machine;
pub use problem::{Case, problem};
pub use record::Record;
pub use timing::{Contender, Effort, Noise, Ratio, Timing, race};

use crate::Result;
use crate::engine::Place;

/// A contender that evaluates a loss and its gradient.
fn evaluation(place: &Place, case: Case) -> Result<Contender<'static>> {
    let (data, parameters) = problem(case.n, case.d);
    let mut loss = place.load(&data, &case.spec()?)?;
    let mut gradient = parameters.zeros_like();
    Ok(Contender::new(case.name(), move || loss.evaluate(&parameters, Some(&mut gradient))))
}
