//! The augmented Lagrangian: when the weights γ and μ of the constraint rise.
//!
//! The loss is −log likelihood + λ Σ p / d² + γ h + ½ μ h². Every two windows of steps its value on the validation data is
//! compared with those one and two windows ago. If it moved one way and either rose or moved less than `SETTLED` per step of a window, the present
//! problem counts as solved: γ rises by μ h, and μ doubles unless h fell by a tenth since the last time.

/// Steps between two values on the validation data.
pub(super) const WINDOW: u64 = 100;
/// μ at the beginning.
const FIRST_MU: f64 = 1e-8;
/// The factor by which μ rises.
const MU_FACTOR: f64 = 2.0;
/// μ stays if h falls below this share of its value at the last solved problem.
const ENOUGH: f64 = 0.9;
/// A problem counts as solved if its loss falls by less than this per step of a window.
const SETTLED: f64 = 1e-4;

/// Weights of the constraint and what decides on them.
#[derive(Clone, Debug)]
pub(super) struct Lagrangian {
    /// The weight of h² / 2.
    pub mu: f64,
    /// The weight of h.
    pub gamma: f64,
    /// h at the last solved problem.
    violation: Option<f64>,
    /// Values on the validation data: two windows ago, one window ago, now.
    recent: [Option<f64>; 3],
}

impl Lagrangian {
    /// At the beginning.
    pub(super) fn new() -> Self {
        Lagrangian { mu: FIRST_MU, gamma: 0.0, violation: None, recent: [None; 3] }
    }

    /// γ h + ½ μ h².
    pub(super) fn penalty(&self, h: f64) -> f64 {
        self.gamma * h + 0.5 * self.mu * h * h
    }

    /// The derivative of the penalty by h.
    pub(super) fn slope(&self, h: f64) -> f64 {
        self.gamma + self.mu * h
    }

    /// Adds the value on the validation data at the end of a window.
    pub(super) fn record(&mut self, value: f64) {
        self.recent = [self.recent[1], self.recent[2], Some(value)];
    }

    /// The value recorded last.
    pub(super) fn last(&self) -> f64 {
        self.recent[2].unwrap_or(f64::INFINITY)
    }

    /// Whether the last three values show that the present problem is solved.
    pub(super) fn is_settled(&self) -> bool {
        let [Some(first), Some(middle), Some(last)] = self.recent else { return false };
        let one_way = first.min(last) < middle && middle < first.max(last);
        let rate = (last - first) / WINDOW as f64;
        one_way && (rate.abs() < SETTLED || rate > 0.0)
    }

    /// Raises γ and perhaps μ at a solved problem with the violation `h`.
    pub(super) fn tighten(&mut self, h: f64) {
        let before = self.penalty(h);
        self.gamma += self.mu * h;
        if self.violation.is_some_and(|last| h > ENOUGH * last) {
            self.mu *= MU_FACTOR;
        }
        self.violation = Some(h);
        // The next comparison is with what the value would have been with the new weights.
        let rise = self.penalty(h) - before;
        self.recent[2] = self.recent[2].map(|value| value + rise);
    }
}
