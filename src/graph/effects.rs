//! The effects of a model.

use crate::model::{Model, Parameters};
use crate::{Error, Matrix, Result};

/// The effect of one variable on another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The variable that acts.
    pub source: usize,
    /// The variable whose drift it changes.
    pub target: usize,
    /// Its strength with its sign, in the model's units; see [`Graph`].
    pub strength: f64,
    /// The strength in standard units, if the model knows the data's standard deviations. Effects are comparable in these units.
    pub standard: Option<f64>,
    /// The interval of a linear model's effect, if the fit computed intervals.
    pub interval: Option<(f64, f64)>,
    /// The number of an ensemble's members in which the effect is not 0, and the number of all members.
    pub members: Option<(usize, usize)>,
}

impl Effect {
    /// The size by which effects are compared: the absolute strength, in standard units if known, otherwise in the model's units.
    pub fn size(&self) -> f64 {
        self.standard.unwrap_or(self.strength).abs()
    }
}

/// Variables and the effects between different ones, strongest first.
///
/// The strength of the effect of i on j is
/// - w_ji for the linear model, and the mean of its members' for an ensemble;
/// - ± ‖(U_jki)_k‖₂ for the MLP, the norm over hidden units k of the weights with which network j sees variable i:
///   the group that [`Penalty`](crate::model::Penalty) penalises. The sign is that of the average slope
///   Σ_k output_jk U_jki. No activation ever falls, so this is the direction of the effect where the units' slopes
///   are alike. A network whose average slope is exactly 0 (one with output weights 0, say) has strength 0.
/// - ± ‖(coefficient_jp · s_p / s_j)_p‖₂ for a drift of given functions, over the functions p that depend on i, with s_p and s_j
///   the standard deviations over the data: what a change of these functions by one deviation does, in deviations of j.
///   The sign is that of the difference that i makes between one deviation above its mean and one below.
///
/// Strengths are in the model's units, which are the data's in models that fits write. Order, thresholds and pictures use
/// standard units if the model knows them, so they do not depend on the data's units. A strength of 0 is no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    names: Vec<String>,
    effects: Vec<Effect>,
}

impl Graph {
    /// All nonzero effects of a model, by decreasing [size](Effect::size), then by the names of source and target.
    pub fn of(model: &Model) -> Result<Graph> {
        model.parameters.check_shapes()?;
        let (d, names) = (model.dim(), &model.names);
        if names.len() != d {
            return Err(Error::invalid(format!(
                "the model has {} names, expected {d}, one for each variable",
                names.len()
            )));
        }
        let mut effects = Vec::new();
        for target in 0..d {
            for source in (0..d).filter(|&source| source != target) {
                let strength = model.parameters.drift.dynamics().effect(source, target)?;
                if !strength.is_finite() {
                    return Err(Error::NonFinite(format!(
                        "the effect of '{}' on '{}' is {strength}, expected a finite number",
                        names[source], names[target]
                    )));
                }
                if strength != 0.0 {
                    let interval = interval(model, source, target);
                    let standard = standard(model, source, target, strength);
                    let all = model.members.len();
                    let members = (all > 0).then(|| (model.members_with(source, target), all));
                    effects.push(Effect { source, target, strength, standard, interval, members });
                }
            }
        }
        let key = |e: &Effect| (&names[e.source], &names[e.target]);
        effects.sort_by(|a, b| b.size().total_cmp(&a.size()).then_with(|| key(a).cmp(&key(b))));
        Ok(Graph { names: names.clone(), effects })
    }

    /// The same variables with the `top` strongest effects of at least `threshold` in [size](Effect::size); `None` means no
    /// limit.
    pub fn select(&self, threshold: Option<f64>, top: Option<usize>) -> Graph {
        let strong = |e: &&Effect| threshold.is_none_or(|least| e.size() >= least);
        let kept = self.effects.iter().filter(strong).take(top.unwrap_or(usize::MAX));
        Graph { names: self.names.clone(), effects: kept.copied().collect() }
    }

    /// The `most` variables with the strongest effects, and the effects between them, for a picture with limited room.
    pub fn part(&self, most: usize) -> Graph {
        let d = self.names.len();
        if d <= most {
            return self.clone();
        }
        let (mut chosen, mut count) = (vec![false; d], 0);
        for at in self.effects.iter().flat_map(|effect| [effect.source, effect.target]) {
            if !chosen[at] && count < most {
                (chosen[at], count) = (true, count + 1);
            }
        }
        let kept: Vec<usize> = (0..d).filter(|&j| chosen[j]).collect();
        let place = |j: usize| kept.binary_search(&j).ok();
        let effects = self.effects.iter().filter_map(|effect| {
            Some(Effect { source: place(effect.source)?, target: place(effect.target)?, ..*effect })
        });
        Graph { effects: effects.collect(), names: kept.iter().map(|&j| self.names[j].clone()).collect() }
    }

    /// The variables' names, in the model's order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The effects, strongest first.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// d × d: row j, column i holds the strength of the effect of i on j, and 0 where there is none.
    pub fn matrix(&self) -> Matrix<f64> {
        self.matrix_of(|effect| effect.strength)
    }

    /// The same in standard units, if they are known.
    pub fn standard_matrix(&self) -> Matrix<f64> {
        self.matrix_of(|effect| effect.standard.unwrap_or(effect.strength))
    }

    fn matrix_of(&self, entry: fn(&Effect) -> f64) -> Matrix<f64> {
        let d = self.names.len();
        let mut matrix = Matrix::full(d, d, 0.0);
        for effect in &self.effects {
            matrix[(effect.target, effect.source)] = entry(effect);
        }
        matrix
    }
}

/// A strength in standard units: the parameters of a model in standard units would give it.
fn standard(model: &Model, source: usize, target: usize, strength: f64) -> Option<f64> {
    let scale = &model.reference.as_ref()?.scale;
    model.parameters.drift.dynamics().standard_effect(strength, scale[source], scale[target])
}

/// Norms of an MLP's weights have no interval, because intervals of single weights do not determine one.
fn interval(model: &Model, source: usize, target: usize) -> Option<(f64, f64)> {
    let intervals = model.intervals.as_ref()?;
    let end = |side: &Parameters<f64>| Some(side.drift.linear_weights().ok()?[(target, source)]);
    Some((end(&intervals.low)?, end(&intervals.high)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Activation, Drift, LawKind, Member, MlpDrift, Noise};

    fn model(drift: Drift<f64>, names: &[&str]) -> Model {
        let d = names.len();
        let noise = Noise::Diagonal { log_noise: vec![0.0; d] };
        let parameters = Parameters { drift, biases: vec![0.0; d], noise, shift: None, log_scale: None };
        Model { names: names.iter().map(|&n| n.into()).collect(), ..Model::new(parameters) }
    }

    fn linear() -> Model {
        let weights = Matrix::from_rows(3, 3, vec![-1.0, 0.5, 0.0, -2.0, -1.0, -0.5, 0.5, 0.0, -1.0]);
        model(Drift::linear(weights), &["c", "b", "a"])
    }

    /// Two networks of two units; each sees itself with 9, which must not count.
    fn mlp(outputs: [f64; 4]) -> Model {
        let drift = Drift::Mlp(MlpDrift {
            activation: Activation::Tanh,
            hidden_weights: Matrix::from_rows(4, 2, vec![9.0, 3.0, 9.0, 4.0, -6.0, 9.0, 8.0, 9.0]),
            hidden_biases: Matrix::full(2, 2, 1.0),
            output_weights: Matrix::from_rows(2, 2, outputs.to_vec()),
        });
        model(drift, &["a", "b"])
    }

    fn listed(graph: &Graph) -> Vec<(usize, usize, f64)> {
        graph.effects().iter().map(|e| (e.source, e.target, e.strength)).collect()
    }

    #[test]
    fn a_linear_model_has_its_weights_strongest_first_and_ties_by_name() {
        let graph = Graph::of(&linear()).unwrap();
        // Of the three with |strength| 0.5: a → b, b → c, c → a.
        assert_eq!(listed(&graph), [(0, 1, -2.0), (2, 1, -0.5), (1, 0, 0.5), (0, 2, 0.5)]);
        let matrix = graph.matrix();
        assert_eq!(matrix.as_slice(), [0.0, 0.5, 0.0, -2.0, 0.0, -0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn an_ensemble_says_in_how_many_members_an_effect_is() {
        let member = |effect: f64, weight: f64| {
            let weights = Matrix::from_rows(2, 2, vec![-1.0, 0.0, effect, -1.0]);
            let parameters = model(Drift::linear(weights), &["a", "b"]).parameters;
            Member { weight, law: LawKind::Diffusion, parameters }
        };
        let members = vec![member(0.5, 0.25), member(0.0, 0.5), member(1.0, 0.25)];
        let average = Member::average(&members);
        let graph = Graph::of(&Model { members, ..Model::new(average) }).unwrap();
        assert_eq!(listed(&graph), [(0, 1, 0.375)]);
        assert_eq!(graph.effects()[0].members, Some((2, 3)));
        assert_eq!(Graph::of(&linear()).unwrap().effects()[0].members, None);
    }

    #[test]
    fn an_mlp_has_norms_with_the_sign_of_the_average_slope() {
        // b on a: norm 5, slope 1·3 − 1·4 < 0. a on b: norm 10, slope −1·(−6) + 0·8 > 0.
        let graph = Graph::of(&mlp([1.0, -1.0, -1.0, 0.0])).unwrap();
        assert_eq!(listed(&graph), [(0, 1, 10.0), (1, 0, -5.0)]);
        // Slopes of exactly 0: output weights 0, and −6·4 + 8·3.
        assert_eq!(listed(&Graph::of(&mlp([0.0, 0.0, 4.0, 3.0])).unwrap()), []);
    }

    #[test]
    fn selections_may_be_combined() {
        let graph = Graph::of(&linear()).unwrap();
        let count = |threshold, top| graph.select(threshold, top).effects().len();
        assert_eq!(count(None, None), 4);
        assert_eq!(count(Some(0.5), None), 4);
        assert_eq!(count(Some(0.6), Some(3)), 1);
        assert_eq!(count(Some(0.1), Some(3)), 3);
        assert_eq!(count(Some(7.0), None), 0);
        assert_eq!(graph.select(Some(7.0), None).names(), ["c", "b", "a"]);
    }

    #[test]
    fn extreme_weights_keep_their_norm_or_are_refused() {
        let mut model = mlp([1.0; 4]);
        let Drift::Mlp(MlpDrift { hidden_weights, .. }) = &mut model.parameters.drift else { unreachable!() };
        hidden_weights.as_mut_slice().fill(1e200);
        assert!((Graph::of(&model).unwrap().effects()[0].strength / 2f64.sqrt() / 1e200 - 1.0).abs() < 1e-15);
        let Drift::Mlp(MlpDrift { hidden_weights, .. }) = &mut model.parameters.drift else { unreachable!() };
        hidden_weights.as_mut_slice().fill(f64::MAX);
        let error = Graph::of(&model).unwrap_err();
        assert!(matches!(error, Error::NonFinite(_)), "{error}");
        assert_eq!(error.to_string(), "the effect of 'b' on 'a' is inf, expected a finite number");
    }

    #[test]
    fn a_model_that_does_not_fit_together_is_refused() {
        let mut model = linear();
        model.names.pop();
        assert!(Graph::of(&model).unwrap_err().to_string().contains("2 names, expected 3"));
        let mut model = linear();
        model.parameters.drift = Drift::linear(Matrix::full(2, 3, 1.0));
        assert!(Graph::of(&model).unwrap_err().to_string().contains("[3, 3]"));
    }
}
