//! The network of one mechanism: leaky ReLU layers and one output, the mean.
//!
//! Parameters are one slice: the weights of every input, the first layer's biases; for each further layer its weights (those
//! of one unit of the layer before are neighbours) and biases; the output's weights and bias; zeros up to a whole group. A layer
//! is padded to whole blocks of units whose weights are 0. Nothing reaches such a unit and no gradient leaves it, so they stay 0.
//!
//! Values of samples are stored as groups: those of group g are `units[g * units..]`, one after another.

use super::lanes::{Lanes, UNITS, WIDTH, add_scaled, total};
use crate::Scalar;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// The slope of leaky ReLU below 0.
pub(super) const SLOPE: f64 = 0.01;

/// The size of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Variables, one of which is the network's own: its weights are never used.
    pub inputs: usize,
    /// Units of a layer.
    pub hidden: usize,
    /// Hidden layers.
    pub layers: usize,
}

impl Shape {
    /// Units of a layer with padding.
    pub(super) fn units(&self) -> usize {
        self.hidden.next_multiple_of(UNITS)
    }

    /// Where the biases of the first layer begin.
    pub(super) fn first_biases(&self) -> usize {
        self.inputs * self.units()
    }

    /// Where the weights of a further layer begin, from layer 1 on.
    pub(super) fn inner_weights(&self, layer: usize) -> usize {
        let units = self.units();
        self.first_biases() + units + (layer - 1) * (units + 1) * units
    }

    /// Where the biases of a further layer begin, from layer 1 on.
    pub(super) fn inner_biases(&self, layer: usize) -> usize {
        self.inner_weights(layer) + self.units() * self.units()
    }

    /// Where the weights of the output begin.
    pub(super) fn output_weights(&self) -> usize {
        self.inner_weights(self.layers)
    }

    /// Where the bias of the output is.
    pub(super) fn output_bias(&self) -> usize {
        self.output_weights() + self.units()
    }

    /// The number of parameters with padding.
    pub(super) fn parameters(&self) -> usize {
        (self.output_bias() + 1).next_multiple_of(UNITS)
    }

    /// Weights uniform within ± gain · √(6 / (spread (inputs + outputs))) and biases 0 (Glorot's initialisation).
    ///
    /// `spread` is 1, or the number of networks that the published code stacks in one tensor per variable: it takes their
    /// number for the size of a receptive field.
    pub(super) fn initial<T: Scalar>(&self, spread: usize, rng: &mut ChaCha8Rng) -> Vec<T> {
        let mut values = vec![T::ZERO; self.parameters()];
        let gain = (2.0 / (1.0 + SLOPE * SLOPE)).sqrt();
        let mut fill = |start: usize, rows: usize, cols: usize| {
            let bound = gain * (6.0 / (spread * (rows + cols)) as f64).sqrt();
            let stride = if cols == 1 { 1 } else { self.units() };
            for i in 0..rows {
                for k in 0..cols {
                    values[start + i * stride + k] = T::from_f64(bound * (2.0 * rng.random::<f64>() - 1.0));
                }
            }
        };
        fill(0, self.inputs, self.hidden);
        (1..self.layers).for_each(|layer| fill(self.inner_weights(layer), self.hidden, self.hidden));
        fill(self.output_weights(), self.hidden, 1);
        values
    }
}

/// Values that the forward pass leaves for the backward pass.
pub(super) struct Workspace<T> {
    /// Layers × units × groups.
    units: Vec<Lanes<T>>,
    /// The loss's derivatives by the sums that enter the units of the present layer, and of the one before it.
    deltas: [Vec<Lanes<T>>; 2],
    /// Groups: the means.
    pub means: Vec<Lanes<T>>,
}

impl<T: Scalar> Workspace<T> {
    /// Space for batches of `groups` groups.
    pub(super) fn new(shape: Shape, groups: usize) -> Self {
        let lanes = |count: usize| vec![[T::ZERO; WIDTH]; count];
        let layer = shape.units() * groups;
        Workspace {
            units: lanes(shape.layers * layer),
            deltas: [lanes(layer), lanes(layer)],
            means: lanes(groups),
        }
    }
}

/// What a network reads: possible parents and what it sees of them.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a, T> {
    /// The variables.
    pub parents: &'a [usize],
    /// Parents × groups: edge · x.
    pub values: &'a [Lanes<T>],
    /// Parents × groups: the derivative of that by the edge's logit.
    pub slopes: &'a [Lanes<T>],
}

/// Computes the means for the groups in `range`, of `groups` that the workspace has.
#[inline(always)]
pub(super) fn forward<T: Scalar>(
    shape: Shape,
    parameters: &[T],
    seen: Seen<'_, T>,
    (groups, range): (usize, Range<usize>),
    space: &mut Workspace<T>,
) {
    let units = shape.units();
    for g in range {
        for block in (0..units).step_by(UNITS) {
            let mut sums = [[T::ZERO; WIDTH]; UNITS];
            for (slot, &i) in seen.parents.iter().enumerate() {
                let weights = block_at(parameters, i * units + block);
                add_outer(&mut sums, weights, &seen.values[slot * groups + g]);
            }
            let biases = block_at(parameters, shape.first_biases() + block);
            activate(&sums, biases, &mut space.units[g * units + block..]);
        }
        for layer in 1..shape.layers {
            let (before, after) = space.units.split_at_mut(layer * units * groups);
            let before = &before[((layer - 1) * groups + g) * units..][..units];
            for block in (0..units).step_by(UNITS) {
                let mut sums = [[T::ZERO; WIDTH]; UNITS];
                for (i, value) in before.iter().enumerate() {
                    add_outer(
                        &mut sums,
                        block_at(parameters, shape.inner_weights(layer) + i * units + block),
                        value,
                    );
                }
                let biases = block_at(parameters, shape.inner_biases(layer) + block);
                activate(&sums, biases, &mut after[g * units + block..]);
            }
        }
        let last = &space.units[((shape.layers - 1) * groups + g) * units..][..units];
        let mut mean = [parameters[shape.output_bias()]; WIDTH];
        for (unit, &weight) in last.iter().zip(&parameters[shape.output_weights()..]) {
            add_scaled(&mut mean, weight, unit);
        }
        space.means[g] = mean;
    }
}

/// Adds the gradient to `gradient` and the gradient by logits to `by_logit` (one per variable), given the loss's derivatives
/// by the means, for the groups in `range`, after [`forward`].
#[inline(always)]
pub(super) fn backward<T: Scalar>(
    shape: Shape,
    parameters: &[T],
    seen: Seen<'_, T>,
    (groups, range): (usize, Range<usize>),
    by_mean: &[Lanes<T>],
    space: &mut Workspace<T>,
    (gradient, by_logit): (&mut [T], &mut [T]),
) {
    let units = shape.units();
    let [delta, other] = &mut space.deltas;
    let last = &space.units[(shape.layers - 1) * units * groups..];
    let mut sum = [T::ZERO; WIDTH];
    for by_mean in &by_mean[range.clone()] {
        add_scaled(&mut sum, T::ONE, by_mean);
    }
    gradient[shape.output_bias()] += total(&sum);
    for k in 0..units {
        let weight = parameters[shape.output_weights() + k];
        let mut sum = [T::ZERO; WIDTH];
        for g in range.clone() {
            let (unit, delta) = (&last[g * units + k], &mut delta[g * units + k]);
            for l in 0..WIDTH {
                sum[l] += unit[l] * by_mean[g][l];
                delta[l] = slope_at(unit[l]) * weight * by_mean[g][l];
            }
        }
        gradient[shape.output_weights() + k] += total(&sum);
    }
    for layer in (1..shape.layers).rev() {
        let before = &space.units[(layer - 1) * units * groups..];
        bias_gradient(&mut gradient[shape.inner_biases(layer)..][..units], delta, range.clone());
        for i in 0..units {
            range.clone().for_each(|g| other[g * units + i] = [T::ZERO; WIDTH]);
            for block in (0..units).step_by(UNITS) {
                let at = shape.inner_weights(layer) + i * units + block;
                let mut sums = [[T::ZERO; WIDTH]; UNITS];
                for g in range.clone() {
                    let (unit, to) = (&before[g * units + i], &mut other[g * units + i]);
                    let deltas = block_at(delta, g * units + block);
                    through(block_at(parameters, at), deltas, unit, &mut sums, |l, sum| {
                        to[l] += slope_at(unit[l]) * sum;
                    });
                }
                add_totals(&mut gradient[at..], &sums);
            }
        }
        std::mem::swap(delta, other);
    }
    bias_gradient(&mut gradient[shape.first_biases()..][..units], delta, range.clone());
    for (slot, &i) in seen.parents.iter().enumerate() {
        let mut logit = [T::ZERO; WIDTH];
        for block in (0..units).step_by(UNITS) {
            let at = i * units + block;
            let mut sums = [[T::ZERO; WIDTH]; UNITS];
            for g in range.clone() {
                let (value, slope) = (&seen.values[slot * groups + g], &seen.slopes[slot * groups + g]);
                let deltas = block_at(delta, g * units + block);
                through(block_at(parameters, at), deltas, value, &mut sums, |l, sum| {
                    logit[l] += slope[l] * sum;
                });
            }
            add_totals(&mut gradient[at..], &sums);
        }
        by_logit[i] += total(&logit);
    }
}

/// Writes γ(sum + bias) of a block of units, with γ leaky ReLU.
#[inline(always)]
fn activate<T: Scalar>(sums: &[Lanes<T>; UNITS], biases: &[T; UNITS], units: &mut [Lanes<T>]) {
    let slope = T::from_f64(SLOPE);
    for ((unit, sum), &bias) in units.iter_mut().zip(sums).zip(biases) {
        for l in 0..WIDTH {
            let z = sum[l] + bias;
            unit[l] = Scalar::max(z, slope * z);
        }
    }
}

/// The derivative of leaky ReLU, where its value is `unit`.
#[inline(always)]
fn slope_at<T: Scalar>(unit: T) -> T {
    if unit > T::ZERO { T::ONE } else { T::from_f64(SLOPE) }
}

/// Adds weight_k · value to the sums of a block of units.
#[inline(always)]
fn add_outer<T: Scalar>(sums: &mut [Lanes<T>; UNITS], weights: &[T; UNITS], value: &Lanes<T>) {
    // Units inside samples, so that the loop over samples is the one that becomes vector code.
    for l in 0..WIDTH {
        for k in 0..UNITS {
            sums[k][l] += weights[k] * value[l];
        }
    }
}

/// Adds value · δ_k to the sums of a block of units, for one group, and gives each lane's Σ_k weight_k δ_k to `use_sum`.
#[inline(always)]
fn through<T: Scalar>(
    weights: &[T; UNITS],
    deltas: &[Lanes<T>; UNITS],
    value: &Lanes<T>,
    sums: &mut [Lanes<T>; UNITS],
    mut use_sum: impl FnMut(usize, T),
) {
    for l in 0..WIDTH {
        let mut through = T::ZERO;
        for k in 0..UNITS {
            sums[k][l] += value[l] * deltas[k][l];
            through += weights[k] * deltas[k][l];
        }
        use_sum(l, through);
    }
}

/// Adds the total of each unit of a block to its entry.
#[inline(always)]
fn add_totals<T: Scalar>(gradient: &mut [T], sums: &[Lanes<T>; UNITS]) {
    gradient.iter_mut().zip(totals(sums)).for_each(|(gradient, total)| *gradient += total);
}

/// The total of each unit of a block. Not inlined: where there are gather instructions, the compiler would use them here, and they
/// would take half the time of a step.
#[inline(never)]
fn totals<T: Scalar>(sums: &[Lanes<T>; UNITS]) -> [T; UNITS] {
    sums.each_ref().map(total)
}

/// The block of a slice that begins at `at`.
#[inline(always)]
fn block_at<T>(slice: &[T], at: usize) -> &[T; UNITS] {
    &slice[at..at + UNITS].as_chunks().0[0]
}

#[inline(always)]
fn bias_gradient<T: Scalar>(gradient: &mut [T], deltas: &[Lanes<T>], range: Range<usize>) {
    let units = gradient.len();
    for (k, gradient) in gradient.iter_mut().enumerate() {
        let mut sum = [T::ZERO; WIDTH];
        for g in range.clone() {
            add_scaled(&mut sum, T::ONE, &deltas[g * units + k]);
        }
        *gradient += total(&sum);
    }
}
