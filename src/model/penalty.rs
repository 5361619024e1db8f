//! Group-lasso penalties on the effects between different variables.

use super::Parameters;
use super::family::{InputWeights, InputWeightsMut};
use crate::named::named;
use crate::{Error, Matrix, Result, Scalar};
use rayon::prelude::*;

/// Weights that one task takes.
pub(crate) const ENTRIES_PER_TASK: usize = 1 << 15;

/// Which groups of effects are penalised. The effect of i on j, e_ji, is w_ji for the linear model and the input
/// weights of variable i into network j, one per hidden unit, for the MLP. Effects of a variable on itself are free.
/// With multipliers m, m_ji e_ji takes the place of e_ji.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyKind {
    /// Every single effect is a group: ‖e_ji‖₂, added up as [`IngoingScale`] says.
    Ingoing,
    /// (1/d) Σ_i ‖(e_ji)_{j≠i}‖₂: all effects of a variable are one group.
    Outgoing,
    /// The sum of the two.
    Both,
}

/// How the penalties of single effects on each variable add up over the d variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngoingScale {
    /// (1/d) Σ_j Σ_{i≠j} ‖e_ji‖₂: what SKDS's authors published for linear models, and the default for them.
    Mean,
    /// Σ_j Σ_{i≠j} ‖e_ji‖₂, d times as much: what was published for neural models, and by KDS's authors for linear ones.
    Sum,
}

named!(IngoingScale, "ingoing scale", { Mean => "mean", Sum => "sum" });

/// λ/d times the penalty of a kind: what training adds to the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalty {
    /// The groups.
    pub kind: PenaltyKind,
    /// λ.
    pub lambda: f64,
    /// How single effects add up; none means as published for the model.
    pub ingoing: Option<IngoingScale>,
}

named!(PenaltyKind, "penalty", { Ingoing => "ingoing", Outgoing => "outgoing", Both => "both" });

impl Penalty {
    /// A penalty that adds up as published for the model.
    pub fn new(kind: PenaltyKind, lambda: f64) -> Self {
        Penalty { kind, lambda, ingoing: None }
    }

    /// What 1/d · ‖e_ji‖₂ is multiplied with: 0 if single effects are not penalised, d if they add up.
    pub(crate) fn ingoing_factor<T: Scalar>(&self, parameters: &Parameters<T>) -> Result<f64> {
        Ok(match (self.kind, self.ingoing.unwrap_or(inputs(parameters)?.scale)) {
            (PenaltyKind::Outgoing, _) => 0.0,
            (_, IngoingScale::Mean) => 1.0,
            (_, IngoingScale::Sum) => parameters.dim() as f64,
        })
    }

    /// The penalty's value.
    pub fn value<T: Scalar>(&self, parameters: &Parameters<T>) -> Result<f64> {
        self.weighted_value(parameters, None)
    }

    /// The penalty's value where row j, column i of finite `multipliers` multiplies the effect of i on j.
    pub fn weighted_value<T: Scalar>(
        &self,
        parameters: &Parameters<T>,
        multipliers: Option<&Matrix<f64>>,
    ) -> Result<f64> {
        let groups = self.groups(parameters, multipliers)?;
        let mut norms = Vec::new();
        let ingoing: f64 = inputs(parameters)?
            .weights
            .as_slice()
            .chunks(groups.entries())
            .enumerate()
            .map(|(j, w)| groups.norms(j, w, &mut norms))
            .sum();
        Ok(groups.outgoing_value + ingoing)
    }

    /// Adds a subgradient to `gradient`, which has the shape of `parameters`, and returns the value. Where a group is 0 its
    /// subgradient is 0.
    pub fn add_gradient<T: Scalar>(
        &self,
        parameters: &Parameters<T>,
        gradient: &mut Parameters<T>,
    ) -> Result<f64> {
        self.add_weighted_gradient(parameters, None, gradient)
    }

    /// The same with multipliers, as in [`weighted_value`](Self::weighted_value).
    pub fn add_weighted_gradient<T: Scalar>(
        &self,
        parameters: &Parameters<T>,
        multipliers: Option<&Matrix<f64>>,
        gradient: &mut Parameters<T>,
    ) -> Result<f64> {
        let groups = self.groups(parameters, multipliers)?;
        let weights = inputs(parameters)?.weights.as_slice();
        let Some(InputWeightsMut { weights: bars, .. }) = gradient.drift.arrays_mut().inputs_mut() else {
            return Err(gradient.drift.without(WEIGHTS));
        };
        if weights.len() != bars.as_slice().len() {
            return Err(Error::invalid(format!(
                "the gradient has {} weights, expected {} like the parameters",
                bars.as_slice().len(),
                weights.len()
            )));
        }
        let networks = weights.chunks(groups.entries()).zip(bars.as_mut_slice().chunks_mut(groups.entries()));
        let mut norms = Vec::new();
        let ingoing: f64 = networks
            .enumerate()
            .map(|(j, (weights, bars))| groups.add_to(j, weights, bars, &mut norms))
            .sum();
        Ok(groups.outgoing_value + ingoing)
    }

    /// What the groups of all networks have in common, so that networks can be gone through in any order.
    pub(crate) fn groups<'a, T: Scalar>(
        &self,
        parameters: &Parameters<T>,
        multipliers: Option<&'a Matrix<f64>>,
    ) -> Result<Groups<'a>> {
        let dim = parameters.dim();
        let InputWeights { weights, units, .. } = inputs(parameters)?;
        let scale = self.lambda / (dim * dim) as f64;
        let ingoing = scale * self.ingoing_factor(parameters)?;
        let outgoing = vec![0.0; dim];
        let mut groups = Groups { dim, units, scale, multipliers, ingoing, outgoing, outgoing_value: 0.0 };
        if self.kind != PenaltyKind::Ingoing {
            let norms = column_norms(weights.as_slice(), multipliers, dim, units);
            groups.outgoing_value = scale * norms.iter().sum::<f64>();
            groups.outgoing = norms.into_iter().map(inverse).collect();
        }
        Ok(groups)
    }
}

/// The penalty's groups. Norms are in f64, so that squares of small f32 weights do not vanish.
pub(crate) struct Groups<'a> {
    dim: usize,
    units: usize,
    /// λ/d².
    scale: f64,
    multipliers: Option<&'a Matrix<f64>>,
    /// What ‖e_ji‖ is multiplied with; 0 without ingoing groups.
    ingoing: f64,
    /// 1/‖(e_ji)_{j≠i}‖ at i; 0 without outgoing groups.
    outgoing: Vec<f64>,
    /// The outgoing part of the penalty.
    pub outgoing_value: f64,
}

impl Groups<'_> {
    /// Weights of a network.
    pub(crate) fn entries(&self) -> usize {
        self.dim * self.units
    }

    /// Fills `norms` with ‖e_ji‖, without multipliers, and 0 at i = j; returns the ingoing part of the penalty of network j.
    #[inline(always)]
    fn norms<T: Scalar>(&self, j: usize, weights: &[T], norms: &mut Vec<f64>) -> f64 {
        norms.clear();
        norms.resize(self.dim, 0.0);
        if self.ingoing == 0.0 {
            return 0.0;
        }
        for row in weights.chunks_exact(self.dim) {
            norms.iter_mut().zip(row).for_each(|(norm, w)| *norm += w.to_f64() * w.to_f64());
        }
        norms[j] = 0.0;
        norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
        self.ingoing
            * match self.multipliers {
                None => norms.iter().sum::<f64>(),
                Some(all) => norms.iter().zip(all.row(j)).map(|(norm, by)| norm * by).sum::<f64>(),
            }
    }

    /// Adds the subgradient of network j's weights to `bars`; returns the ingoing part of its penalty. `norms` is space.
    #[inline(always)]
    pub(crate) fn add_to<T: Scalar>(
        &self,
        j: usize,
        weights: &[T],
        bars: &mut [T],
        norms: &mut Vec<f64>,
    ) -> f64 {
        let value = self.norms(j, weights, norms);
        let slopes = norms;
        let both = slopes.iter_mut().zip(&self.outgoing);
        match self.multipliers {
            None => {
                both.for_each(|(slope, out)| *slope = self.ingoing * inverse(*slope) + self.scale * out);
            }
            Some(all) => both.zip(all.row(j)).for_each(|((slope, out), by)| {
                *slope = by * (self.ingoing * inverse(*slope) + self.scale * by * out);
            }),
        }
        slopes[j] = 0.0;
        for (weights, bars) in weights.chunks_exact(self.dim).zip(bars.chunks_exact_mut(self.dim)) {
            for ((bar, slope), w) in bars.iter_mut().zip(&*slopes).zip(weights) {
                *bar += T::from_f64(slope * w.to_f64());
            }
        }
        value
    }
}

/// 1/norm, and 0 for a group that is 0: its weights are 0 too, so their product stays 0 instead of NaN.
#[inline(always)]
fn inverse(norm: f64) -> f64 {
    if norm > 0.0 { 1.0 / norm } else { 0.0 }
}

/// What a drift lacks that has no penalty.
const WEIGHTS: &str = "weights between variables to penalise";

/// The penalised weights.
fn inputs<T: Scalar>(parameters: &Parameters<T>) -> Result<InputWeights<'_, T>> {
    parameters.drift.arrays().inputs().ok_or_else(|| parameters.drift.without(WEIGHTS))
}

/// ‖(m_ji e_ji)_{j≠i}‖ at i. Cut by shape alone, so that the bits do not depend on the number of threads.
fn column_norms<T: Scalar>(
    weights: &[T],
    multipliers: Option<&Matrix<f64>>,
    dim: usize,
    units: usize,
) -> Vec<f64> {
    let networks = (ENTRIES_PER_TASK / (dim * units)).max(1);
    let squares = |(part, weights): (usize, &[T])| {
        let mut squares = vec![0.0; dim];
        for (row, weights) in weights.chunks_exact(dim).enumerate() {
            let own = part * networks + row / units;
            let kept = squares[own];
            let both = squares.iter_mut().zip(weights);
            match multipliers {
                None => both.for_each(|(square, w)| *square += w.to_f64() * w.to_f64()),
                Some(all) => both
                    .zip(all.row(own))
                    .for_each(|((square, w), by)| *square += (by * w.to_f64()) * (by * w.to_f64())),
            }
            squares[own] = kept;
        }
        squares
    };
    let parts: Vec<Vec<f64>> = weights.par_chunks(networks * dim * units).enumerate().map(squares).collect();
    let mut norms = vec![0.0; dim];
    for part in parts {
        norms.iter_mut().zip(part).for_each(|(norm, square)| *norm += square);
    }
    norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
    norms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Activation, Drift, MlpDrift, Noise};

    fn parameters(drift: Drift<f64>, d: usize) -> Parameters<f64> {
        let noise = Noise::Diagonal { log_noise: vec![0.0; d] };
        Parameters { drift, biases: vec![0.0; d], noise, shift: None, log_scale: None }
    }

    fn linear() -> Parameters<f64> {
        let weights = Matrix::from_rows(3, 3, vec![-1.0, 3.0, 0.0, -4.0, -1.0, 0.0, 0.0, 4.0, -1.0]);
        parameters(Drift::linear(weights), 3)
    }

    fn mlp() -> Parameters<f64> {
        // Two networks of two units over two variables: network 0 sees variable 1 with (3, 4), network 1 sees
        // variable 0 with (0, 0); own weights are 9 and must not count.
        let drift = Drift::Mlp(MlpDrift {
            activation: Activation::Sigmoid,
            hidden_weights: Matrix::from_rows(4, 2, vec![9.0, 3.0, 9.0, 4.0, 0.0, 9.0, 0.0, 9.0]),
            hidden_biases: Matrix::full(2, 2, 1.0),
            output_weights: Matrix::full(2, 2, 1.0),
        });
        parameters(drift, 2)
    }

    fn value(kind: PenaltyKind, parameters: &Parameters<f64>) -> f64 {
        Penalty::new(kind, 9.0).value(parameters).unwrap()
    }

    #[test]
    fn values_by_hand() {
        // λ/d = 3; ingoing (3 + 4 + 4)/3; outgoing: columns (−4, 0), (3, 4), (0, 0): (4 + 5)/3.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} {b}");
        close(value(PenaltyKind::Ingoing, &linear()), 11.0);
        close(value(PenaltyKind::Outgoing, &linear()), 9.0);
        close(value(PenaltyKind::Both, &linear()), 20.0);
        // λ/d = 4.5; both are one group of norm 5. Outgoing is halved, ingoing of networks is a sum.
        close(value(PenaltyKind::Ingoing, &mlp()), 22.5);
        close(value(PenaltyKind::Outgoing, &mlp()), 11.25);
        close(value(PenaltyKind::Both, &mlp()), 33.75);
    }

    #[test]
    fn the_scale_of_single_effects_can_be_given() {
        let of = |ingoing, parameters: &Parameters<f64>| {
            let both = Penalty { ingoing: Some(ingoing), ..Penalty::new(PenaltyKind::Both, 9.0) };
            both.value(parameters).unwrap()
        };
        // Ingoing 11 as a mean over 3 variables, outgoing 9.
        assert!((of(IngoingScale::Mean, &linear()) - 20.0).abs() < 1e-13);
        assert!((of(IngoingScale::Sum, &linear()) - 42.0).abs() < 1e-13);
        assert!((of(IngoingScale::Mean, &mlp()) - 22.5).abs() < 1e-13);
        assert!((of(IngoingScale::Sum, &mlp()) - 33.75).abs() < 1e-13);
    }

    #[test]
    fn subgradients_are_slopes_and_zero_at_zero() {
        for parameters in [linear(), mlp()] {
            let cases = PenaltyKind::ALL
                .iter()
                .flat_map(|kind| IngoingScale::ALL.iter().map(move |scale| (*kind, *scale)));
            for (kind, scale) in cases {
                let penalty = Penalty { ingoing: Some(scale), ..Penalty::new(kind, 0.7) };
                let mut gradient = parameters.zeros_like();
                let returned = penalty.add_gradient(&parameters, &mut gradient).unwrap();
                assert_eq!(returned, penalty.value(&parameters).unwrap());
                for tensor in 0..parameters.tensors().len() {
                    for at in 0..parameters.tensors()[tensor].values.len() {
                        let found = gradient.tensors()[tensor].values[at];
                        let weight = parameters.tensors()[tensor].values[at];
                        let step = 1e-6;
                        let moved = |by: f64| {
                            let mut moved = parameters.clone();
                            moved.tensors_mut()[tensor].1[at] += by;
                            penalty.value(&moved).unwrap()
                        };
                        // Central differences give the symmetric choice, 0, at the kink as well.
                        let slope = (moved(step) - moved(-step)) / (2.0 * step);
                        assert!((found - slope).abs() < 1e-7, "{kind} {tensor} {at}: {found} {slope}");
                        assert!(weight != 0.0 || found == 0.0);
                    }
                }
            }
        }
    }

    #[test]
    fn multipliers_take_part_in_every_group() {
        // Effects on 0, 1, 2 in rows; 0 is not penalised, 2 counts twice.
        let by = Matrix::from_rows(3, 3, vec![1.0, 2.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.5, 1.0]);
        let value = |kind| Penalty::new(kind, 9.0).weighted_value(&linear(), Some(&by)).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-13, "{a} {b}");
        // Ingoing 2·3 + 0·4 + 0.5·4; outgoing columns (0, 0), (6, 2), (0, 0).
        close(value(PenaltyKind::Ingoing), 8.0);
        close(value(PenaltyKind::Outgoing), 40.0f64.sqrt());
        close(value(PenaltyKind::Both), 8.0 + 40.0f64.sqrt());
        let small = Matrix::from_rows(2, 2, vec![1.0, 3.0, 0.5, 1.0]);
        for (parameters, by) in [(linear(), &by), (mlp(), &small)] {
            for &kind in PenaltyKind::ALL {
                let penalty = Penalty::new(kind, 0.7);
                let mut gradient = parameters.zeros_like();
                let returned = penalty.add_weighted_gradient(&parameters, Some(by), &mut gradient).unwrap();
                assert_eq!(returned, penalty.weighted_value(&parameters, Some(by)).unwrap());
                for at in 0..parameters.tensors()[0].values.len() {
                    let moved = |step: f64| {
                        let mut moved = parameters.clone();
                        moved.tensors_mut()[0].1[at] += step;
                        penalty.weighted_value(&moved, Some(by)).unwrap()
                    };
                    let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    let found = gradient.tensors()[0].values[at];
                    assert!((found - slope).abs() < 1e-7, "{kind} {at}: {found} {slope}");
                }
            }
        }
    }

    #[test]
    fn tiny_f32_weights_keep_their_direction() {
        let mut parameters = linear().cast::<f32>();
        parameters.tensors_mut()[0].1.fill(1e-30);
        let mut gradient = parameters.zeros_like();
        Penalty::new(PenaltyKind::Ingoing, 9.0).add_gradient(&parameters, &mut gradient).unwrap();
        let weights = gradient.drift.linear_weights().unwrap();
        assert_eq!(weights[(0, 1)], 1.0);
        assert_eq!(weights[(0, 0)], 0.0);
    }
}
