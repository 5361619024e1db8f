//! The means that variables reach when somebody perturbs them, as the data shows: what is meant by "KLF1 is perturbed" where
//! nobody says how strongly.
//!
//! | a variable | reaches |
//! |---|---|
//! | perturbed alone in the data | the mean that it has there |
//! | perturbed only together with others | the mean over those environments |
//! | never perturbed | what perturbations do to their own targets: the median over them |
//!
//! Without negative numbers, as in gene expression, the last is a factor of the mean at rest; otherwise it is a change in standard
//! deviations at rest, of the median size and in the direction of most.

use super::{TargetMeans, Treatment};
use crate::data::Dataset;
use crate::model::Model;
use crate::numeric::statistics::{median, moments};
use crate::{Error, Result};
use serde::Serialize;

/// The mean that a perturbed variable is taken to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// The variable.
    #[serde(skip)]
    pub variable: usize,
    /// In the data's units.
    pub mean: f64,
    /// Whether the data has perturbations of the variable; if not, the mean follows from those of others.
    pub observed: bool,
}

/// The levels of all variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// The means where the data has perturbations.
    observed: Vec<Option<f64>>,
    /// Means and deviations at rest.
    rest: (Vec<f64>, Vec<f64>),
    /// What perturbations do to targets; none if there are no perturbations.
    usual: Option<Usual>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Usual {
    /// Means are multiplied.
    Factor(f64),
    /// Means change by so many deviations.
    Change(f64),
}

impl Levels {
    /// The levels that data with an observational environment shows.
    pub fn of(data: &Dataset) -> Result<Levels> {
        let Some(rest) = data.observational() else {
            return Err(Error::invalid(
                "the data has no environment without targets, expected one to compare with",
            ));
        };
        let rest = moments(&data.environment(rest));
        let targets: Vec<Vec<usize>> = (0..data.environments()).map(|e| targets_of(data, e)).collect();
        let mean_over = |environments: &[usize], j: usize| {
            let rows: usize = environments.iter().map(|&e| data.rows(e).len()).sum();
            let sum: f64 =
                environments.iter().flat_map(|&e| data.rows(e)).map(|i| data.samples()[(i, j)]).sum();
            (rows > 0).then(|| sum / rows as f64)
        };
        let observed: Vec<Option<f64>> = (0..data.dim())
            .map(|j| {
                let with = |alone: bool| -> Vec<usize> {
                    let has = |e: &usize| targets[*e].contains(&j) && (!alone || targets[*e].len() == 1);
                    (0..data.environments()).filter(has).collect()
                };
                mean_over(&with(true), j).or_else(|| mean_over(&with(false), j))
            })
            .collect();
        let usual = usual(data, &observed, &rest);
        Ok(Levels { observed, rest, usual })
    }

    /// The level of a variable; an error if the data has no perturbations at all.
    pub fn level(&self, variable: usize) -> Result<Level> {
        let (mean, deviation) = (self.rest.0[variable], self.rest.1[variable]);
        let (mean, observed) = match (self.observed[variable], self.usual) {
            (Some(mean), _) => (mean, true),
            (None, Some(Usual::Factor(factor))) => (factor * mean, false),
            (None, Some(Usual::Change(change))) => (mean + change * deviation, false),
            (None, None) => {
                return Err(Error::invalid(
                    "the data has no perturbations, so it does not show how strong one is, expected some",
                ));
            }
        };
        Ok(Level { variable, mean, observed })
    }

    /// The treatment that brings these variables to their levels.
    pub fn treatment(&self, model: &Model, targets: &[usize]) -> Result<(Treatment, Vec<Level>)> {
        let levels = targets.iter().map(|&j| self.level(j)).collect::<Result<Vec<_>>>()?;
        let means = levels.iter().map(|level| level.mean).collect();
        Ok((Treatment::with_means(model, TargetMeans { targets: targets.to_vec(), means }), levels))
    }
}

/// The variables that a label names: one, or several joined by `separator`. A variable may itself have the separator in its name.
pub fn targets_of_label(model: &Model, label: &str, separator: &str) -> Result<Vec<usize>> {
    if let Some(whole) = model.names.iter().position(|name| name == label) {
        return Ok(vec![whole]);
    }
    let parts = label.split(separator).map(str::trim).filter(|part| !part.is_empty());
    let mut targets = parts.map(|part| model.variable(part)).collect::<Result<Vec<_>>>()?;
    targets.sort_unstable();
    targets.dedup();
    match targets.is_empty() {
        true => Err(Error::invalid(format!(
            "the perturbation '{label:.60}' names no variable, expected one, or several joined by {separator}"
        ))),
        false => Ok(targets),
    }
}

/// The targets of an environment.
fn targets_of(data: &Dataset, e: usize) -> Vec<usize> {
    (0..data.dim()).filter(|&j| data.targets()[(e, j)]).collect()
}

/// What perturbations do to their own targets.
fn usual(data: &Dataset, observed: &[Option<f64>], rest: &(Vec<f64>, Vec<f64>)) -> Option<Usual> {
    let pairs = || observed.iter().enumerate().filter_map(|(j, mean)| Some((j, (*mean)?)));
    let positive = data.samples().as_slice().iter().all(|value| *value >= 0.0);
    let factors: Vec<f64> =
        pairs().filter(|(j, _)| rest.0[*j] > 0.0).map(|(j, mean)| mean / rest.0[j]).collect();
    if positive && !factors.is_empty() {
        return Some(Usual::Factor(median(&factors)));
    }
    let changes: Vec<f64> =
        pairs().filter(|(j, _)| rest.1[*j] > 0.0).map(|(j, mean)| (mean - rest.0[j]) / rest.1[j]).collect();
    // Pushes in both directions would have a median of about 0, which is no push at all.
    let size = median(&changes.iter().map(|change| change.abs()).collect::<Vec<_>>());
    let direction = if median(&changes) < 0.0 { -1.0 } else { 1.0 };
    (!changes.is_empty()).then_some(Usual::Change(direction * size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::model::{Drift, Noise, Parameters};

    /// At rest, with x0 pushed, with x1 and x2 pushed, and with x1 pushed again together with x0; x3 is never pushed.
    fn data(sign: f64) -> Dataset {
        let rows = |push: [f64; 4]| {
            Matrix::from_fn(4, 4, |i, j| {
                let rest = [2.0, 4.0, 6.0, 8.0][j];
                sign.mul_add(rest, push[j]) + if i % 2 == 0 { 0.5 } else { -0.5 }
            })
        };
        let environments = vec![
            rows([0.0; 4]),
            rows([-1.0, 0.1, 0.0, 0.0]),
            rows([0.0, -3.0, -1.5, 0.3]),
            rows([-1.5, -1.0, 0.0, 0.0]),
        ];
        let targets =
            [[false; 4], [true, false, false, false], [false, true, true, false], [true, true, false, false]];
        Dataset::from_environments(environments)
            .unwrap()
            .with_targets(Matrix::from_fn(4, 4, |e, j| targets[e][j]))
            .unwrap()
    }

    fn model() -> Model {
        let drift = Drift::linear(Matrix::from_fn(4, 4, |i, j| if i == j { -1.0 } else { 0.0 }));
        let noise = Noise::Diagonal { log_noise: vec![0.0; 4] };
        let names = ["KLF1", "CEBPA", "A+B", "GATA1"].map(String::from).to_vec();
        let parameters = Parameters { drift, biases: vec![0.0; 4], noise, shift: None, log_scale: None };
        Model { names, ..Model::new(parameters) }
    }

    #[test]
    fn levels_are_those_of_the_data_and_else_the_usual_ones() {
        let levels = Levels::of(&data(1.0)).unwrap();
        let level = |j| levels.level(j).map(|level| (level.mean, level.observed)).unwrap();
        // Alone; over two combinations; in one combination.
        assert_eq!(level(0), (1.0, true));
        assert_eq!(level(1), (2.0, true));
        assert_eq!(level(2), (4.5, true));
        // Factors 1/2, 1/2 and 3/4.
        assert_eq!(level(3), (4.0, false));
        // With negative numbers: changes of 1, 2 and 1.5 in deviations of 0.5, whose median is 3.
        let levels = Levels::of(&data(-1.0)).unwrap();
        assert_eq!(levels.level(3).unwrap().mean, -8.0 - 3.0 * 0.5);
        // One of them in the other direction.
        let mixed = data(-1.0);
        let mut samples = mixed.samples().clone();
        mixed.rows(1).for_each(|i| samples[(i, 0)] += 1.5);
        mixed.rows(2).for_each(|i| samples[(i, 2)] -= 3.0);
        let parts = (0..4).map(|e| Matrix::from_rows(4, 4, samples.rows_slice(mixed.rows(e)).to_vec()));
        let mixed = Dataset::from_environments(parts.collect())
            .unwrap()
            .with_targets(mixed.targets().clone())
            .unwrap();
        // x0 by +0.5 (1 deviation), x1 by −2 (4 deviations), x2 by −4.5 (9 deviations).
        assert_eq!(Levels::of(&mixed).unwrap().level(3).unwrap().mean, -8.0 - 4.0 * 0.5);
    }

    #[test]
    fn without_perturbations_there_are_no_levels() {
        let alone = Dataset::from_environments(vec![data(1.0).environment(0)]).unwrap();
        let sentence = Levels::of(&alone).unwrap().level(0).unwrap_err().to_string();
        assert!(sentence.contains("the data has no perturbations"), "{sentence}");
        let none = Dataset::from_environments(vec![data(1.0).environment(1)])
            .unwrap()
            .with_targets(Matrix::full(1, 4, true))
            .unwrap();
        assert!(Levels::of(&none).unwrap_err().to_string().contains("no environment without targets"));
    }

    #[test]
    fn labels_name_variables() {
        let model = model();
        assert_eq!(targets_of_label(&model, "CEBPA+KLF1+KLF1", "+").unwrap(), [0, 1]);
        assert_eq!(targets_of_label(&model, "A+B", "+").unwrap(), [2]);
        assert_eq!(targets_of_label(&model, "KLF1_GATA1", "_").unwrap(), [0, 3]);
        let sentence = targets_of_label(&model, "KLF1+MYC", "+").unwrap_err().to_string();
        assert!(sentence.contains("unknown variable 'MYC', expected one of KLF1"), "{sentence}");
        assert!(targets_of_label(&model, " + ", "+").unwrap_err().to_string().contains("names no variable"));
        let levels = Levels::of(&data(1.0).with_names(model.names.clone()).unwrap()).unwrap();
        let (treatment, found) = levels.treatment(&model, &[0, 3]).unwrap();
        assert_eq!(treatment.set, TargetMeans { targets: vec![0, 3], means: vec![1.0, 4.0] });
        assert_eq!(found.iter().map(|level| level.observed).collect::<Vec<_>>(), [true, false]);
    }
}
