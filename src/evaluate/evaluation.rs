//! All predictions of a test, with medians and means.

use super::{AnchoredScores, Prediction, Scores};
use crate::numeric::statistics::median;
use serde::Serialize;

/// How well the test environments were predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The number of test environments.
    pub environments: usize,
    /// The number of predictions without a stationary law.
    pub unstable: usize,
    /// The medians of the others' distances.
    pub median: Scores,
    /// Their means.
    pub mean: Scores,
    /// One per environment.
    pub predictions: Vec<Prediction>,
    /// Predictions that start from observed rows, if there was training data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchored: Option<Comparison>,
    /// Floors: what the same rows predict without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floors: Option<Floors>,
}

/// The distances of one kind of prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The number of environments that it predicts.
    pub environments: usize,
    /// The medians over these.
    pub median: Scores,
    /// Their means.
    pub mean: Scores,
    /// One per environment of the test.
    pub scores: Vec<Option<Scores>>,
}

/// What can be predicted without a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Floors {
    /// Only the targets move.
    pub none: Comparison,
    /// The effects of single interventions add up; none if no test environment is a combination of such.
    pub additive: Option<Comparison>,
}

impl Comparison {
    fn new(scores: Vec<Option<Scores>>) -> Self {
        let known: Vec<Scores> = scores.iter().flatten().copied().collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let each = |of: fn(&[f64]) -> f64| {
            let part = |part: fn(&Scores) -> f64| of(&known.iter().map(part).collect::<Vec<_>>());
            Scores { mse: part(|s| s.mse), w2: part(|s| s.w2), sinkhorn: part(|s| s.sinkhorn) }
        };
        Comparison { environments: known.len(), median: each(median), mean: each(mean), scores }
    }
}

impl Evaluation {
    /// Summarises predictions.
    pub fn new(predictions: Vec<Prediction>) -> Self {
        let all = Comparison::new(predictions.iter().map(|p| p.scores).collect());
        Evaluation {
            environments: predictions.len(),
            unstable: predictions.len() - all.environments,
            median: all.median,
            mean: all.mean,
            predictions,
            anchored: None,
            floors: None,
        }
    }

    /// Adds predictions that start from observed rows.
    pub fn with_anchored(self, scores: AnchoredScores) -> Self {
        let additive = Comparison::new(scores.additive);
        Evaluation {
            anchored: Some(Comparison::new(scores.anchored)),
            floors: Some(Floors {
                none: Comparison::new(scores.none),
                additive: (additive.environments > 0).then_some(additive),
            }),
            ..self
        }
    }

    /// A table with a row per environment, then medians and means.
    pub fn to_text(&self) -> String {
        let mut lines = vec![header("environment, target")];
        for p in &self.predictions {
            let name = format!("{:<4} {}", p.environment, p.targets.join(", "));
            lines.push(match (&p.scores, &p.unstable) {
                (Some(scores), _) => row(&name, scores),
                (None, reason) => format!("{name:<28}  unstable: {}", reason.as_deref().unwrap_or("")),
            });
        }
        lines.push(row("median", &self.median));
        lines.push(row("mean", &self.mean));
        if let (Some(anchored), Some(floors)) = (&self.anchored, &self.floors) {
            lines.push(format!("\n{}", header("median of")));
            lines.push(row("samples of the law", &self.median));
            lines.push(self.median_of("anchored at the data", anchored));
            lines.push(self.median_of("floor: no effect", &floors.none));
            lines.extend(floors.additive.as_ref().map(|floor| self.median_of("floor: additive", floor)));
        }
        lines.push(format!("\n{} of {} predictions are unstable", self.unstable, self.environments));
        lines.join("\n")
    }

    /// A row of medians. It says if they are over fewer environments than the others, and so not comparable.
    fn median_of(&self, name: &str, comparison: &Comparison) -> String {
        let row = row(name, &comparison.median);
        match comparison.environments == self.environments {
            true => row,
            false => format!("{row}  over {} of {} environments", comparison.environments, self.environments),
        }
    }
}

fn header(name: &str) -> String {
    format!("{name:<28}{:>12}{:>12}{:>12}", "mse", "w2", "sinkhorn")
}

fn row(name: &str, scores: &Scores) -> String {
    format!("{name:<28}{:>12.4}{:>12.4}{:>12.4}", scores.mse, scores.w2, scores.sinkhorn)
}
