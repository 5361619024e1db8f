//! All predictions of a test, and what they come to.

use super::{Prediction, Scores, median};
use serde::Serialize;

/// How test environments were predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// How many there are.
    pub environments: usize,
    /// How many predictions have no law.
    pub unstable: usize,
    /// The medians of those that have.
    pub median: Scores,
    /// Their means.
    pub mean: Scores,
    /// One per environment.
    pub predictions: Vec<Prediction>,
}

impl Evaluation {
    /// Of predictions.
    pub fn new(predictions: Vec<Prediction>) -> Self {
        let scores: Vec<Scores> = predictions.iter().filter_map(|p| p.scores).collect();
        let of = |part: fn(&Scores) -> f64| scores.iter().map(part).collect::<Vec<_>>();
        let (mse, w2, sinkhorn) = (of(|s| s.mse), of(|s| s.w2), of(|s| s.sinkhorn));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Evaluation {
            environments: predictions.len(),
            unstable: predictions.len() - scores.len(),
            median: Scores { mse: median(&mse), w2: median(&w2), sinkhorn: median(&sinkhorn) },
            mean: Scores { mse: mean(&mse), w2: mean(&w2), sinkhorn: mean(&sinkhorn) },
            predictions,
        }
    }

    /// A row per environment, and below them medians and means.
    pub fn to_text(&self) -> String {
        let row =
            |name: &str, s: &Scores| format!("{name:<28}{:>12.4}{:>12.4}{:>12.4}", s.mse, s.w2, s.sinkhorn);
        let mut lines =
            vec![format!("{:<28}{:>12}{:>12}{:>12}", "environment, target", "mse", "w2", "sinkhorn")];
        for p in &self.predictions {
            let name = format!("{:<4} {}", p.environment, p.targets.join(", "));
            lines.push(match (&p.scores, &p.unstable) {
                (Some(scores), _) => row(&name, scores),
                (None, reason) => format!("{name:<28}  unstable: {}", reason.as_deref().unwrap_or("")),
            });
        }
        lines.push(row("median", &self.median));
        lines.push(row("mean", &self.mean));
        lines.push(format!("\n{} of {} predictions are unstable", self.unstable, self.environments));
        lines.join("\n")
    }
}
