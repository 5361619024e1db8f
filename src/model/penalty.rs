//! Group-lasso penalties on the effects between different variables.

use super::{Drift, Parameters};
use crate::Scalar;
use crate::named::named;

/// Which groups of effects are penalised. The effect of i on j, e_ji, is w_ji for the linear model and the input
/// weights of variable i into network j, one per hidden unit, for the MLP. Effects of a variable on itself are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyKind {
    /// (1/d) Σ_j Σ_{i≠j} ‖e_ji‖₂: every single effect is a group.
    Ingoing,
    /// (1/d) Σ_i ‖(e_ji)_{j≠i}‖₂: all effects of a variable are one group.
    Outgoing,
    /// The sum of the two.
    Both,
}

/// λ/d times the penalty of a kind: what training adds to the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalty {
    /// The groups.
    pub kind: PenaltyKind,
    /// λ.
    pub lambda: f64,
}

named!(PenaltyKind, "penalty", { Ingoing => "ingoing", Outgoing => "outgoing", Both => "both" });

impl Penalty {
    /// The penalty's value.
    pub fn value<T: Scalar>(&self, parameters: &Parameters<T>) -> f64 {
        self.value_of(&Norms::of(parameters), parameters.dim())
    }

    fn value_of(&self, norms: &Norms, d: usize) -> f64 {
        let d = d as f64;
        let mut sum = 0.0;
        if self.kind != PenaltyKind::Outgoing {
            sum += norms.ingoing.iter().sum::<f64>();
        }
        if self.kind != PenaltyKind::Ingoing {
            sum += norms.outgoing.iter().sum::<f64>();
        }
        self.lambda / d * sum / d
    }

    /// Adds a subgradient to `gradient` and returns the value. Where a group is 0 its subgradient is 0.
    ///
    /// # Panics
    /// If `gradient` does not have the shape of `parameters`.
    pub fn add_gradient<T: Scalar>(&self, parameters: &Parameters<T>, gradient: &mut Parameters<T>) -> f64 {
        let d = parameters.dim();
        let norms = Norms::of(parameters);
        let scale = self.lambda / (d * d) as f64;
        let (weights, h) = effects(parameters);
        let bars = match &mut gradient.drift {
            Drift::Linear { weights } => weights.as_mut_slice(),
            Drift::Mlp { hidden_weights, .. } => hidden_weights.as_mut_slice(),
        };
        assert_eq!(weights.len(), bars.len(), "a gradient has the shape of its parameters");
        for (row, (weights, bars)) in weights.chunks_exact(d).zip(bars.chunks_exact_mut(d)).enumerate() {
            let j = row / h;
            for i in (0..d).filter(|&i| i != j) {
                let mut slope = 0.0;
                if self.kind != PenaltyKind::Outgoing {
                    slope += inverse(norms.ingoing[j * d + i]);
                }
                if self.kind != PenaltyKind::Ingoing {
                    slope += inverse(norms.outgoing[i]);
                }
                bars[i] += T::from_f64(scale * slope * weights[i].to_f64());
            }
        }
        self.value_of(&norms, d)
    }
}

/// 1/norm, and 0 for a group that is 0: its weights are 0 too, so their product stays 0 instead of NaN.
fn inverse(norm: f64) -> f64 {
    if norm > 0.0 { 1.0 / norm } else { 0.0 }
}

/// The weights from inputs, one row of d per unit, and the number of units per variable.
fn effects<T: Scalar>(parameters: &Parameters<T>) -> (&[T], usize) {
    match &parameters.drift {
        Drift::Linear { weights } => (weights.as_slice(), 1),
        Drift::Mlp { hidden_weights, hidden_biases, .. } => (hidden_weights.as_slice(), hidden_biases.cols()),
    }
}

/// Norms of the groups, in f64 so that squares of small f32 weights do not vanish.
struct Norms {
    /// ‖e_ji‖ at j·d + i, 0 on the diagonal.
    ingoing: Vec<f64>,
    /// ‖(e_ji)_{j≠i}‖ at i.
    outgoing: Vec<f64>,
}

impl Norms {
    fn of<T: Scalar>(parameters: &Parameters<T>) -> Self {
        let d = parameters.dim();
        let (weights, h) = effects(parameters);
        let (mut ingoing, mut outgoing) = (vec![0.0; d * d], vec![0.0; d]);
        for (row, weights) in weights.chunks_exact(d).enumerate() {
            let j = row / h;
            for i in (0..d).filter(|&i| i != j) {
                let square = weights[i].to_f64() * weights[i].to_f64();
                ingoing[j * d + i] += square;
                outgoing[i] += square;
            }
        }
        ingoing.iter_mut().chain(&mut outgoing).for_each(|square| *square = square.sqrt());
        Norms { ingoing, outgoing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::model::{Activation, Noise};

    fn parameters(drift: Drift<f64>, d: usize) -> Parameters<f64> {
        let noise = Noise::Diagonal { log_noise: vec![0.0; d] };
        Parameters { drift, biases: vec![0.0; d], noise, shift: None, log_scale: None }
    }

    fn linear() -> Parameters<f64> {
        let weights = Matrix::from_rows(3, 3, vec![-1.0, 3.0, 0.0, -4.0, -1.0, 0.0, 0.0, 4.0, -1.0]);
        parameters(Drift::Linear { weights }, 3)
    }

    fn mlp() -> Parameters<f64> {
        // Two networks of two units over two variables: network 0 sees variable 1 with (3, 4), network 1 sees
        // variable 0 with (0, 0); own weights are 9 and must not count.
        let drift = Drift::Mlp {
            activation: Activation::Sigmoid,
            hidden_weights: Matrix::from_rows(4, 2, vec![9.0, 3.0, 9.0, 4.0, 0.0, 9.0, 0.0, 9.0]),
            hidden_biases: Matrix::full(2, 2, 1.0),
            output_weights: Matrix::full(2, 2, 1.0),
        };
        parameters(drift, 2)
    }

    fn value(kind: PenaltyKind, parameters: &Parameters<f64>) -> f64 {
        Penalty { kind, lambda: 9.0 }.value(parameters)
    }

    #[test]
    fn values_by_hand() {
        // λ/d = 3; ingoing (3 + 4 + 4)/3; outgoing: columns (−4, 0), (3, 4), (0, 0): (4 + 5)/3.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} {b}");
        close(value(PenaltyKind::Ingoing, &linear()), 11.0);
        close(value(PenaltyKind::Outgoing, &linear()), 9.0);
        close(value(PenaltyKind::Both, &linear()), 20.0);
        // λ/d = 4.5; both are one group of norm 5, halved.
        close(value(PenaltyKind::Ingoing, &mlp()), 11.25);
        close(value(PenaltyKind::Outgoing, &mlp()), 11.25);
    }

    #[test]
    fn subgradients_are_slopes_and_zero_at_zero() {
        for parameters in [linear(), mlp()] {
            for &kind in PenaltyKind::ALL {
                let penalty = Penalty { kind, lambda: 0.7 };
                let mut gradient = parameters.zeros_like();
                let returned = penalty.add_gradient(&parameters, &mut gradient);
                assert_eq!(returned, penalty.value(&parameters));
                for tensor in 0..parameters.tensors().len() {
                    for at in 0..parameters.tensors()[tensor].values.len() {
                        let found = gradient.tensors()[tensor].values[at];
                        let weight = parameters.tensors()[tensor].values[at];
                        let step = 1e-6;
                        let moved = |by: f64| {
                            let mut moved = parameters.clone();
                            moved.tensors_mut()[tensor].1[at] += by;
                            penalty.value(&moved)
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
    fn tiny_f32_weights_keep_their_direction() {
        let mut parameters = linear().cast::<f32>();
        parameters.tensors_mut()[0].1.fill(1e-30);
        let mut gradient = parameters.zeros_like();
        Penalty { kind: PenaltyKind::Ingoing, lambda: 9.0 }.add_gradient(&parameters, &mut gradient);
        let Drift::Linear { weights } = &gradient.drift else { unreachable!() };
        assert_eq!(weights[(0, 1)], 1.0);
        assert_eq!(weights[(0, 0)], 0.0);
    }
}
