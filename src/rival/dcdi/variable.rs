//! One variable: its mechanisms, its scale, and what a step or an evaluation does with them.

use super::Interventions;
use super::batch::Batch;
use super::lanes::{Lanes, WIDTH, total};
use super::network::{Seen, Shape, Workspace, backward, forward};
use super::noise::{Edges, Noise, draw, draw_values};
use super::optimizer::descend;
use crate::data::Dataset;
use crate::{Matrix, Scalar};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// The least logarithm of a scale. A variable that never varies would pull it down without end.
const LEAST_LOG_SCALE: f64 = -12.0;
/// ½ ln 2π.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

/// A network and the state of its optimizer.
#[derive(Clone, Debug)]
pub(super) struct Mechanism<T> {
    /// The environment whose samples it explains, or none for those that do not act on the variable.
    environment: Option<usize>,
    pub parameters: Vec<T>,
    pub gradient: Vec<T>,
    squares: Vec<T>,
}

/// A variable and everything that only its own conditional distribution depends on, apart from logits.
#[derive(Clone, Debug)]
pub(super) struct Variable<T> {
    index: usize,
    pub shape: Shape,
    /// First the mechanism without intervention; then, for interventions that change it, one per environment that acts on the variable.
    pub mechanisms: Vec<Mechanism<T>>,
    /// Environments that act on the variable, ascending.
    targeting: Vec<usize>,
    /// The logarithm of the noise's scale, which all mechanisms share.
    pub log_scale: f64,
    pub log_scale_gradient: f64,
    log_scale_square: f64,
    /// Variables that may act on this one.
    parents: Vec<usize>,
    /// Whether exactly the parents act on it.
    fixed: bool,
    noise: Noise,
}

/// What all variables see in a step.
pub(super) struct Step<'a, T> {
    pub batch: &'a Batch<T>,
    /// d × d, row j for the edges to j: the probability of each.
    pub present: &'a Matrix<f64>,
    /// One minus that, without cancellation.
    pub absent: &'a Matrix<f64>,
    /// The loss is this times the sum of −log likelihoods.
    pub share: f64,
    pub edges: Edges,
}

/// Space that a thread needs for one variable.
pub(super) struct Scratch<T> {
    uniform: Vec<Lanes<f32>>,
    values: Vec<Lanes<T>>,
    slopes: Vec<Lanes<T>>,
    weights: Vec<Lanes<T>>,
    by_mean: Vec<Lanes<T>>,
    by_logit: Vec<T>,
    network: Workspace<T>,
}

impl<T: Scalar> Scratch<T> {
    /// For batches of `groups` groups.
    pub(super) fn new(shape: Shape, groups: usize) -> Self {
        let lanes = |count: usize| vec![[T::ZERO; WIDTH]; count];
        Scratch {
            uniform: vec![[0.0; WIDTH]; groups],
            values: lanes(shape.inputs * groups),
            slopes: lanes(shape.inputs * groups),
            weights: lanes(groups),
            by_mean: lanes(groups),
            by_logit: vec![T::ZERO; shape.inputs],
            network: Workspace::new(shape, groups),
        }
    }
}

impl<T: Scalar> Variable<T> {
    /// Variable `index` with random networks that all other variables may act on.
    pub(super) fn new(
        data: &Dataset,
        index: usize,
        shape: Shape,
        interventions: Interventions,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let targeting: Vec<usize> =
            (0..data.environments()).filter(|&e| data.targets()[(e, index)]).collect();
        let (own, spread) = match interventions {
            Interventions::Perfect => (&[][..], 1),
            Interventions::Imperfect => (&targeting[..], data.environments()),
        };
        let mechanisms = std::iter::once(None).chain(own.iter().copied().map(Some));
        let zeros = vec![T::ZERO; shape.parameters()];
        let mechanisms = mechanisms.map(|environment| Mechanism {
            environment,
            parameters: shape.initial(spread, rng),
            gradient: zeros.clone(),
            squares: zeros.clone(),
        });
        Variable {
            index,
            shape,
            mechanisms: mechanisms.collect(),
            targeting,
            log_scale: 0.0,
            log_scale_gradient: 0.0,
            log_scale_square: 0.0,
            parents: (0..shape.inputs).filter(|&i| i != index).collect(),
            fixed: false,
            noise: Noise::new(rng),
        }
    }

    /// From now on, exactly `parents` act on the variable.
    pub(super) fn fix(&mut self, parents: Vec<usize>) {
        self.parents = parents;
        self.fixed = true;
    }

    /// Variables that may act on this one.
    pub(super) fn parents(&self) -> &[usize] {
        &self.parents
    }

    /// Forgets the optimizer's running means.
    pub(super) fn restart(&mut self) {
        self.log_scale_square = 0.0;
        self.mechanisms.iter_mut().for_each(|mechanism| mechanism.squares.fill(T::ZERO));
    }

    /// The loss of this variable. Adds its gradient to those of the mechanisms and of the scale; `by_logit` gets that by the logits of
    /// the edges to the variable.
    #[inline(always)]
    pub(super) fn gradient(
        &mut self,
        step: &Step<'_, T>,
        by_logit: &mut [f64],
        space: &mut Scratch<T>,
    ) -> f64 {
        space.by_logit.fill(T::ZERO);
        let (squares, weight) = self.pass::<true>(step, space);
        self.log_scale_gradient += step.share * (weight - squares);
        by_logit.iter_mut().zip(&space.by_logit).for_each(|(to, from)| *to = from.to_f64());
        self.loss(step, squares, weight)
    }

    /// The loss of this variable.
    #[inline(always)]
    pub(super) fn value(&mut self, step: &Step<'_, T>, space: &mut Scratch<T>) -> f64 {
        let (squares, weight) = self.pass::<false>(step, space);
        self.loss(step, squares, weight)
    }

    /// Takes a step along the gradient.
    #[inline(always)]
    pub(super) fn descend(&mut self, rate: f64) {
        for Mechanism { parameters, gradient, squares, .. } in &mut self.mechanisms {
            descend(rate, parameters, gradient, squares);
        }
        let (value, gradient) = (&mut self.log_scale, &mut self.log_scale_gradient);
        let square = &mut self.log_scale_square;
        descend(
            rate,
            std::slice::from_mut(value),
            std::slice::from_mut(gradient),
            std::slice::from_mut(square),
        );
        self.log_scale = f64::max(self.log_scale, LEAST_LOG_SCALE);
    }

    fn loss(&self, step: &Step<'_, T>, squares: f64, weight: f64) -> f64 {
        step.share * (0.5 * squares + (self.log_scale + HALF_LOG_TAU) * weight)
    }

    /// The sum of squared residuals in units of the scale, and the number of samples they are of.
    #[inline(always)]
    fn pass<const LEARN: bool>(&mut self, step: &Step<'_, T>, space: &mut Scratch<T>) -> (f64, f64) {
        let groups = step.batch.groups;
        self.look::<LEARN>(step, space);
        let Scratch { values, slopes, weights, by_mean, by_logit, network, .. } = space;
        let seen = Seen { parents: &self.parents, values, slopes };
        let own = &step.batch.values[self.index * groups..][..groups];
        let inverse = (-self.log_scale).exp();
        let (inverse, slope) = (T::from_f64(inverse), T::from_f64(-step.share * inverse));
        let (mut squares, mut weight) = (0.0, 0.0);
        for mechanism in &mut self.mechanisms {
            let samples = explained(mechanism.environment, step.batch);
            if samples.is_empty() {
                continue;
            }
            let range = samples.start / WIDTH..samples.end.div_ceil(WIDTH);
            weigh(weights, samples);
            if mechanism.environment.is_none() {
                self.targeting.iter().for_each(|&e| {
                    weights.as_flattened_mut()[step.batch.environments[e].clone()].fill(T::ZERO)
                });
            }
            forward(self.shape, &mechanism.parameters, seen, (groups, range.clone()), network);
            let (mut square, mut sum) = ([T::ZERO; WIDTH], [T::ZERO; WIDTH]);
            for g in range.clone() {
                for l in 0..WIDTH {
                    let residual = (own[g][l] - network.means[g][l]) * inverse;
                    let weighted = weights[g][l] * residual;
                    square[l] += weighted * residual;
                    sum[l] += weights[g][l];
                    by_mean[g][l] = slope * weighted;
                }
            }
            squares += total(&square).to_f64();
            weight += total(&sum).to_f64();
            if LEARN {
                let gradient = (&mut mechanism.gradient[..], &mut by_logit[..]);
                backward(
                    self.shape,
                    &mechanism.parameters,
                    seen,
                    (groups, range),
                    by_mean,
                    network,
                    gradient,
                );
            }
        }
        (squares, weight)
    }

    /// What the mechanisms see of the parents.
    #[inline(always)]
    fn look<const LEARN: bool>(&mut self, step: &Step<'_, T>, space: &mut Scratch<T>) {
        let groups = step.batch.groups;
        for (slot, &i) in self.parents.iter().enumerate() {
            let x = &step.batch.values[i * groups..][..groups];
            let seen = &mut space.values[slot * groups..][..groups];
            let slopes = &mut space.slopes[slot * groups..][..groups];
            if self.fixed {
                seen.copy_from_slice(x);
                slopes.fill([T::ZERO; WIDTH]);
                continue;
            }
            let at = (self.index, i);
            let probability = (T::from_f64(step.present[at]), T::from_f64(step.absent[at]));
            self.noise.fill(&mut space.uniform);
            match LEARN {
                true => draw(&space.uniform, probability, step.edges, x, seen, slopes),
                false => draw_values(&space.uniform, probability, x, seen),
            }
        }
    }
}

/// The samples among which a mechanism's own are: all, or those of its environment.
#[inline(always)]
fn explained<T>(environment: Option<usize>, batch: &Batch<T>) -> Range<usize> {
    match environment {
        Some(e) => batch.environments[e].clone(),
        None => 0..batch.count,
    }
}

/// Weights 1 for the samples and 0 for all others.
#[inline(always)]
fn weigh<T: Scalar>(weights: &mut [Lanes<T>], samples: Range<usize>) {
    let weights = weights.as_flattened_mut();
    weights.fill(T::ZERO);
    weights[samples].fill(T::ONE);
}
