//! The evidence for a fit's effects: interventions, or covariances alone, which do not identify every effect.

use super::{PreparedFit, TargetChoice};
use crate::data::Dataset;
use crate::model::Model;
use crate::named::by_name;
use crate::named::named;
use serde::Serialize;

/// Means that differ by more than this many standard errors differ clearly.
const CLEARLY: f64 = 3.0;

/// The evidence for a variable's effects on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// An environment is known to intervene on the variable.
    Intervention,
    /// None is, but in some environment its mean differs clearly from the mean without interventions, so its effects are visible
    /// in means.
    Elsewhere,
    /// Only covariances.
    Covariances,
}

named!(Evidence, "evidence", {
    Intervention => "intervention",
    Elsewhere => "interventions elsewhere",
    Covariances => "covariances alone",
});

/// The evidence for one variable's effects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariableSupport {
    /// The variable.
    pub name: String,
    /// The evidence for its effects on others.
    #[serde(serialize_with = "by_name::serialize")]
    pub by: Evidence,
}

/// The evidence for all variables' effects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Support {
    /// Every variable, in the data's order.
    pub variables: Vec<VariableSupport>,
    /// Pairs of variables of a linear model that act on each other, where neither is intervened on. Covariances alone do not
    /// identify the two effects.
    pub unidentified_pairs: Vec<(String, String)>,
    /// The number of such pairs, even if not all are listed.
    pub unidentified_count: usize,
}

impl PreparedFit {
    /// The evidence for the effects of a model that this fit returned.
    pub fn support(&self, model: &Model) -> Support {
        let known = self.recipe.targets == TargetChoice::Known;
        let evidence = evidence(&self.data, known);
        let named = |(name, by): (&String, &Evidence)| VariableSupport { name: name.clone(), by: *by };
        let mut pairs = Vec::new();
        if let Ok(weights) = model.parameters.drift.linear_weights() {
            let open: Vec<usize> =
                (0..evidence.len()).filter(|&j| evidence[j] != Evidence::Intervention).collect();
            for (at, &i) in open.iter().enumerate() {
                let loops =
                    open[at + 1..].iter().filter(|&&j| weights[(i, j)] != 0.0 && weights[(j, i)] != 0.0);
                pairs.extend(loops.map(|&j| (model.names[i].clone(), model.names[j].clone())));
            }
        }
        Support {
            variables: self.data.names().iter().zip(&evidence).map(named).collect(),
            unidentified_count: pairs.len(),
            unidentified_pairs: pairs,
        }
    }
}

/// The evidence for each variable's effects in this data. `known` says whether the targets are known.
fn evidence(data: &Dataset, known: bool) -> Vec<Evidence> {
    let (d, all) = (data.dim(), data.environments());
    let intervened = |e: usize| if known { data.targets().row(e).contains(&true) } else { e > 0 };
    let mut observed: Vec<usize> = (0..all).filter(|&e| !intervened(e)).collect();
    if observed.is_empty() {
        observed.push(0);
    }
    let rest = Moments::of(data, &observed);
    let others: Vec<Moments> =
        (0..all).filter(|e| !observed.contains(e)).map(|e| Moments::of(data, &[e])).collect();
    let of = |j: usize| {
        if known && (0..all).any(|e| data.targets()[(e, j)]) {
            Evidence::Intervention
        } else if others.iter().any(|other| other.differs(&rest, j)) {
            Evidence::Elsewhere
        } else {
            Evidence::Covariances
        }
    };
    (0..d).map(of).collect()
}

/// The mean of every variable over some environments, and the square of its standard error.
struct Moments {
    means: Vec<f64>,
    errors: Vec<f64>,
}

impl Moments {
    fn of(data: &Dataset, environments: &[usize]) -> Moments {
        let rows = || environments.iter().flat_map(|&e| data.rows(e));
        let n = rows().count() as f64;
        let mut means = vec![0.0; data.dim()];
        for i in rows() {
            means.iter_mut().zip(data.samples().row(i)).for_each(|(mean, value)| *mean += value / n);
        }
        let mut errors = vec![0.0; data.dim()];
        for i in rows() {
            let row = data.samples().row(i).iter().zip(&means);
            let square = (n - 1.0).max(1.0) * n;
            errors.iter_mut().zip(row).for_each(|(error, (x, mean))| *error += (x - mean).powi(2) / square);
        }
        Moments { means, errors }
    }

    /// Whether the means of variable j differ by more than [`CLEARLY`] standard errors of their difference.
    fn differs(&self, other: &Moments, j: usize) -> bool {
        (self.means[j] - other.means[j]).abs() > CLEARLY * (self.errors[j] + other.errors[j]).sqrt()
    }
}

impl Support {
    /// The same with at most `most` pairs.
    pub fn with_pairs_up_to(mut self, most: usize) -> Support {
        self.unidentified_pairs.truncate(most);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::fit::Settings;
    use crate::model::{Drift, Noise, Parameters};

    /// Three variables: the second environment intervenes on 0 and moves 1 along, by so many standard errors.
    fn data(errors: f64) -> Dataset {
        let n = 50;
        let wave = |i: usize, j: usize| (0.7 * i as f64 + 2.0 * j as f64).sin();
        let first = Matrix::from_fn(n, 3, wave);
        let mean = (0..n).map(|i| wave(i, 1)).sum::<f64>() / n as f64;
        let spread = (0..n).map(|i| (wave(i, 1) - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let error = (2.0 * spread / n as f64).sqrt();
        let second = Matrix::from_fn(n, 3, |i, j| {
            wave(i, j)
                + match j {
                    0 => 5.0,
                    1 => errors * error,
                    _ => 0.0,
                }
        });
        let targets = Matrix::from_fn(2, 3, |e, j| e == 1 && j == 0);
        Dataset::from_environments(vec![first, second]).unwrap().with_targets(targets).unwrap()
    }

    #[test]
    fn three_standard_errors_are_clear() {
        use Evidence::{Covariances, Elsewhere, Intervention};
        assert_eq!(evidence(&data(3.01), true), [Intervention, Elsewhere, Covariances]);
        assert_eq!(evidence(&data(-2.99), true), [Intervention, Covariances, Covariances]);
        // Nobody says who is intervened on.
        assert_eq!(evidence(&data(2.99), false), [Elsewhere, Covariances, Covariances]);
        let alone = Dataset::from_environments(vec![data(0.0).environment(0)]).unwrap();
        assert_eq!(evidence(&alone, true), [Covariances; 3]);
    }

    fn support(weights: Vec<f64>, errors: f64) -> Support {
        let settings = Settings { lambda: Some(0.1), ..Settings::default() };
        let problem = PreparedFit::new(&data(errors), &settings).unwrap();
        let parameters = Parameters {
            drift: Drift::linear(Matrix::from_rows(3, 3, weights)),
            biases: vec![0.0; 3],
            noise: Noise::Diagonal { log_noise: vec![0.0; 3] },
            shift: None,
            log_scale: None,
        };
        problem.support(&Model::new(parameters))
    }

    #[test]
    fn loops_that_nobody_intervenes_on_are_named() {
        // 0 and 1, 1 and 2 act on each other; 0 is intervened on.
        let both = support(vec![-1.0, 0.3, 0.2, 0.3, -1.0, 0.1, 0.0, 0.4, -1.0], 4.0);
        assert_eq!(both.unidentified_pairs, [("x1".to_string(), "x2".to_string())]);
        let one_way = support(vec![-1.0, 0.3, 0.2, 0.3, -1.0, 0.0, 0.0, 0.4, -1.0], 0.0);
        assert!(one_way.unidentified_pairs.is_empty());
    }
}
