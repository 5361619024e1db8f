//! A root search that receives the function's values one by one, so that many searches can share their evaluations.

/// The least first step of a search.
const FIRST_STEP: f64 = 0.1;
/// How often the step is doubled to find a change of sign, in each direction.
const DOUBLINGS: usize = 20;
/// How often the bracket is cut.
const CUTS: usize = 14;
/// A bracket this narrow, relative to its position, is not cut further.
const NARROW: f64 = 1e-4;

/// Finds a change of sign by doubling steps, first in the direction in which an increasing function would have it, then in the
/// other. Then it cuts the bracket by secants, or in half where a secant would gain nothing.
#[derive(Clone, Debug)]
pub(super) struct Root {
    start: f64,
    /// The next point to evaluate.
    at: f64,
    phase: Phase,
    /// The value at the start.
    first: f64,
    direction: f64,
    step: f64,
    tries: usize,
    /// The ends of the bracket.
    near: (f64, f64),
    far: (f64, f64),
    /// The point where the function was nearest to 0.
    best: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    First,
    Widening { turned: bool },
    Narrowing,
    Settled,
}

impl Root {
    pub(super) fn new(start: f64) -> Self {
        let nothing = (start, f64::INFINITY);
        Root {
            start,
            at: start,
            phase: Phase::First,
            first: 0.0,
            direction: 1.0,
            step: 0.0,
            tries: 0,
            near: nothing,
            far: nothing,
            best: nothing,
        }
    }

    /// The next point to evaluate; none once the search is over.
    pub(super) fn next(&self) -> Option<f64> {
        (self.phase != Phase::Settled).then_some(self.at)
    }

    /// Whether no value was received yet.
    pub(super) fn is_new(&self) -> bool {
        self.phase == Phase::First
    }

    /// The point where the function was found nearest to 0.
    pub(super) fn found(&self) -> f64 {
        self.best.0
    }

    /// Receives the value at [`next`](Self::next), or none if the function has none there. A value within `tolerance` of 0 counts
    /// as 0.
    pub(super) fn tell(&mut self, value: Option<f64>, tolerance: f64) {
        if let Some(value) = value {
            if value.abs() < self.best.1.abs() {
                self.best = (self.at, value);
            }
            if value.abs() <= tolerance {
                self.phase = Phase::Settled;
                return;
            }
        }
        match (self.phase, value) {
            (Phase::First, Some(value)) => {
                self.first = value;
                self.direction = -value.signum();
                // For a variable that reverts at rate 1, this shift moves the mean by the missing amount.
                self.widen(Phase::Widening { turned: false }, value.abs().max(FIRST_STEP));
            }
            (Phase::Widening { .. }, Some(value)) if value.signum() != self.first.signum() => {
                (self.far, self.phase, self.tries) = ((self.at, value), Phase::Narrowing, 0);
                self.cut();
            }
            (Phase::Widening { .. }, Some(value)) if self.tries < DOUBLINGS => {
                self.near = (self.at, value);
                self.tries += 1;
                self.step *= 2.0;
                self.at = self.start + self.direction * self.step;
            }
            (Phase::Widening { turned: false }, _) => {
                self.direction = -self.direction;
                self.widen(Phase::Widening { turned: true }, FIRST_STEP);
            }
            (Phase::Narrowing, Some(value)) => {
                let end = if value.signum() == self.near.1.signum() { &mut self.near } else { &mut self.far };
                *end = (self.at, value);
                self.tries += 1;
                self.cut();
            }
            _ => self.phase = Phase::Settled,
        }
    }

    fn widen(&mut self, phase: Phase, step: f64) {
        (self.phase, self.step, self.tries) = (phase, step, 0);
        self.near = (self.start, self.first);
        self.at = self.start + self.direction * step;
    }

    fn cut(&mut self) {
        let ((a, at_a), (b, at_b)) = (self.near, self.far);
        let (low, width) = (a.min(b), (b - a).abs());
        if self.tries == CUTS || width < NARROW * (1.0 + a.abs()) {
            self.phase = Phase::Settled;
            return;
        }
        let secant = a - at_a * (b - a) / (at_b - at_a);
        let gains = secant > low + 0.05 * width && secant < low + 0.95 * width;
        self.at = if gains { secant } else { low + 0.5 * width };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(start: f64, tolerance: f64, f: impl Fn(f64) -> Option<f64>) -> (f64, usize) {
        let mut root = Root::new(start);
        let mut asked = 0;
        while let Some(at) = root.next() {
            root.tell(f(at), tolerance);
            asked += 1;
        }
        (root.found(), asked)
    }

    #[test]
    fn roots_are_bracketed_from_both_sides_and_far_away() {
        for goal in [0.013, -7.0, 900.0] {
            for sign in [1.0, -1.0] {
                let (found, asked) = root(0.0, 0.0, |x| Some(sign * (x - goal).atan()));
                assert!((found - goal).abs() < 1e-2 * (1.0 + f64::abs(goal)), "{goal} {sign} {found}");
                assert!(asked < 2 * DOUBLINGS + CUTS + 3);
            }
        }
    }

    #[test]
    fn a_linear_function_takes_few_values() {
        let (found, asked) = root(0.0, 1e-3, |x| Some(0.6 * x - 1.7));
        assert!((0.6 * found - 1.7).abs() < 1e-3 && asked <= 5, "{found} {asked}");
    }

    #[test]
    fn a_search_without_a_root_ends_at_the_least_value() {
        let (found, _) = root(0.0, 0.0, |x| Some(1.0 + x * x));
        assert_eq!(found, 0.0);
        // No value beyond 1, where it would change its sign.
        let (found, _) = root(0.0, 0.0, |x| (x < 1.0).then_some(x - 2.0));
        assert!((0.0..1.0).contains(&found), "{found}");
    }
}
