//! Adam (Kingma and Ba).

use super::{Optimise, ShaderRates, Update};
use crate::numeric::simd;

/// The settings of Adam (Kingma and Ba).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The step size.
    pub learning_rate: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of their squares.
    pub beta2: f64,
    /// What keeps the quotient finite.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Adam { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Optimise for Adam {
    /// The mean of gradients and the mean of their squares.
    fn moments(&self) -> &'static [&'static str] {
        &["mean.", "square."]
    }

    fn update(&self, step: u32) -> Box<dyn Update> {
        let Adam { learning_rate, beta1, beta2, epsilon } = *self;
        let step = step as i32;
        Box::new(Rates {
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            rate: (learning_rate / (1.0 - beta1.powi(step))) as f32,
            correct: (1.0 / (1.0 - beta2.powi(step))) as f32,
            epsilon: epsilon as f32,
        })
    }

    fn shader_rates(&self) -> Option<ShaderRates> {
        Some(ShaderRates {
            learning_rate: self.learning_rate as f32,
            beta1: self.beta1 as f32,
            beta2: self.beta2 as f32,
            epsilon: self.epsilon as f32,
        })
    }
}

/// The constants of one step.
struct Rates {
    beta1: f32,
    beta2: f32,
    rate: f32,
    correct: f32,
    epsilon: f32,
}

impl Update for Rates {
    fn apply(&self, p: &mut [f32], moments: &mut [&mut [f32]], g: &[f32], free: &[f32]) {
        let [m, s] = moments else { return };
        simd::dispatch(
            #[inline(always)]
            || {
                let moments = m.iter_mut().zip(s.iter_mut());
                for ((p, (m, s)), (g, free)) in p.iter_mut().zip(moments).zip(g.iter().zip(free)) {
                    let slope = g * free;
                    *m = self.beta1 * *m + (1.0 - self.beta1) * slope;
                    *s = self.beta2 * *s + (1.0 - self.beta2) * slope * slope;
                    *p -= self.rate * free * *m / ((*s * self.correct).sqrt() + self.epsilon);
                }
            },
        );
    }
}
