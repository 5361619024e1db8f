//! Finds shifts that bring means to goals within one simulation.
//!
//! While the chains walk, a controller moves the shifts so that the means over all chains reach their goals. In a stationary
//! state the shift of variable j is −E[b_j(X)], so its average over time converges to the shift that has the wanted mean. That
//! average is then held, the chains forget the controller, and their means tell by how much the goal is missed. Shifts that
//! miss are corrected by what is missing, or steered again. The chains are then samples of the law under the shifts.
//!
//! If several shifts have the wanted means, the controller finds the one that it reaches first on its way from no shift, because
//! the goals move slowly from where the means are to where they should be; a bracketing search finds the nearest in the same
//! direction. Where holding a variable's mean makes others run away, although the law under a constant shift exists, the
//! controller fails; the caller then searches by bracketing.

use std::sync::Arc;

/// The controller acts this often, in units of time. A variable of standardised data forgets at rate 1.
const INTERVAL: f64 = 0.1;
/// How the shift answers to the distance of a mean from its goal, and to the sum of past distances. A variable that forgets at
/// rate 1 then answers like a critically damped oscillator of rate 2.
const PROPORTIONAL: f64 = 3.0;
const INTEGRAL: f64 = 4.0;
/// A mean is reached if it misses by at most this share of the variable's standard deviation.
const TOLERANCE: f64 = 0.02;
/// Windows over which the held means are averaged at most, after the last correction.
const WINDOWS: usize = 4;
/// A shift that is so many times as large as the distance its mean should go is lost: what it holds runs away.
const MOST_EFFORT: f64 = 1000.0;
/// Shifts that move means by much less or more than themselves are not corrected by how far they have moved them.
const LEAST_RATIO: f64 = 0.1;
const MOST_RATIO: f64 = 10.0;
/// Corrections of held shifts by what the miss asks for, in a row at most.
const ADJUSTMENTS: u32 = 2;
/// Corrections by steering again at most. Each averages twice as long as the one before.
const CORRECTIONS: u32 = 2;

/// What the means of targets are brought to.
#[derive(Clone, Debug)]
pub(crate) enum Goals {
    /// These means.
    Means(Vec<f64>),
    /// Those of another simulation with the same random numbers plus these changes, so that the noise cancels.
    Follow {
        /// The means of all variables at each report of that simulation.
        track: Arc<Vec<Vec<f64>>>,
        /// Of the targets.
        changes: Vec<f64>,
    },
}

impl Goals {
    /// The goal of the k-th target, variable j, at a report.
    fn at(&self, k: usize, j: usize, report: usize) -> f64 {
        match self {
            Goals::Means(means) => means[k],
            Goals::Follow { track, changes } => track[report.min(track.len() - 1)][j] + changes[k],
        }
    }
}

/// Finds the shifts of a simulation's targets. The simulation walks [`steps`](Self::steps) steps at a time and reports its
/// moments.
pub(super) struct Steering {
    targets: Vec<usize>,
    goals: Goals,
    /// Steps between two reports.
    steps: usize,
    /// The time between two reports.
    interval: f64,
    lengths: Lengths,
    phase: Phase,
    /// Reports in this phase.
    reports: usize,
    /// All reports so far.
    time: usize,
    /// The means of all variables at each report, where nothing is steered.
    track: Vec<Vec<f64>>,
    /// How far the targets' means were from their goals at the first report.
    first: Option<Vec<f64>>,
    /// The part of the shifts that past distances make up.
    integral: Vec<f64>,
    /// The shifts.
    shifts: Vec<f64>,
    average: Average,
    /// Means and mean squares of all variables under the held shifts, and the goals of the targets.
    held: (Average, Average, Average),
    windows: usize,
    adjustments: u32,
    corrections: u32,
    lost: bool,
}

/// Reports in each phase.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    /// The goals move to their places.
    ramp: usize,
    settle: usize,
    average: usize,
    forget: usize,
    window: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Settle,
    Average,
    Forget,
    Hold,
    Done,
}

/// An average of vectors.
#[derive(Clone, Debug, Default)]
struct Average {
    sum: Vec<f64>,
    count: f64,
}

impl Average {
    fn add(&mut self, values: &[f64]) {
        self.sum.resize(values.len(), 0.0);
        self.sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        self.count += 1.0;
    }

    fn values(&self) -> Vec<f64> {
        self.sum.iter().map(|sum| sum / self.count).collect()
    }
}

impl Steering {
    /// Brings the targets to these means in about `burn_in` steps of length `dt`. Without targets it only measures means.
    pub(super) fn new(targets: &[usize], goals: Goals, burn_in: usize, dt: f64) -> Self {
        let steps = ((INTERVAL / dt).round() as usize).clamp(1, burn_in.max(1));
        // Two thirds of the steps are steered, one third is held.
        let share = |of: f64| (of * burn_in as f64 / steps as f64).ceil().max(1.0) as usize;
        let forget = if targets.is_empty() { share(5.0 / 6.0) } else { share(1.0 / 6.0) };
        Steering {
            targets: targets.to_vec(),
            goals,
            steps,
            interval: steps as f64 * dt,
            lengths: Lengths {
                ramp: share(2.0 / 15.0),
                settle: share(4.0 / 15.0),
                average: share(6.0 / 15.0),
                forget,
                window: share(1.0 / 6.0),
            },
            phase: if targets.is_empty() { Phase::Forget } else { Phase::Settle },
            reports: 0,
            time: 0,
            track: Vec::new(),
            first: None,
            integral: vec![0.0; targets.len()],
            shifts: vec![0.0; targets.len()],
            average: Average::default(),
            held: Default::default(),
            windows: 0,
            adjustments: 0,
            corrections: 0,
            lost: false,
        }
    }

    /// Steps until the next report.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// Whether the next steps may be twice as long, so half as many: the shifts are still moving, and what they come to is tried with the
    /// proper steps. A track is followed with the steps that it was made with.
    pub(super) fn may_stride(&self) -> bool {
        let moves = matches!(self.phase, Phase::Settle | Phase::Average | Phase::Forget);
        moves && matches!(self.goals, Goals::Means(_)) && self.steps.is_multiple_of(2)
    }

    /// Reports that chains need to forget what they have in common.
    pub(super) fn forgetting(&self) -> usize {
        self.lengths.window
    }

    /// Reports until the end, if no mean misses its goal.
    pub(super) fn usual_reports(&self) -> usize {
        let Lengths { settle, average, forget, window, .. } = self.lengths;
        forget + window + if self.targets.is_empty() { 0 } else { settle + average }
    }

    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// The targets and their shifts now.
    pub(super) fn shifts(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.targets.iter().copied().zip(self.shifts.iter().copied())
    }

    /// The means of all variables at each report, if nothing was steered.
    pub(super) fn into_track(self) -> Vec<Vec<f64>> {
        self.track
    }

    /// The largest distance of a target's mean from its goal, in standard deviations of the variable; infinite if the search is lost.
    pub(super) fn miss(&self) -> f64 {
        if self.lost {
            return f64::INFINITY;
        }
        let (means, squares, goals) = (self.held.0.values(), self.held.1.values(), self.held.2.values());
        let each = self.targets.iter().zip(&goals).map(|(&j, goal)| {
            let deviation = (squares[j] - means[j] * means[j]).max(0.0).sqrt();
            (means[j] - goal).abs() / deviation.max(f64::MIN_POSITIVE)
        });
        each.fold(0.0, f64::max)
    }

    /// Receives the means and mean squares of all variables over the chains, and decides on the shifts.
    pub(super) fn report(&mut self, means: &[f64], squares: &[f64]) {
        self.reports += 1;
        if self.targets.is_empty() {
            self.track.push(means.to_vec());
        }
        match self.phase {
            Phase::Settle => {
                self.steer(means);
                if !self.lost {
                    self.pass(self.lengths.settle, Phase::Average);
                }
            }
            Phase::Average => {
                self.steer(means);
                self.average.add(&self.shifts);
                if !self.lost && self.pass(self.lengths.average << self.corrections, Phase::Forget) {
                    self.shifts = self.average.values();
                }
            }
            Phase::Forget => {
                self.pass(self.lengths.forget, Phase::Hold);
            }
            Phase::Hold => {
                self.held.0.add(means);
                self.held.1.add(squares);
                let goals: Vec<f64> = self.goals_now().collect();
                self.held.2.add(&goals);
                if self.reports == self.lengths.window {
                    self.reports = 0;
                    self.windows += 1;
                    self.judge();
                }
            }
            Phase::Done => {}
        }
        self.time += 1;
    }

    fn goals_now(&self) -> impl Iterator<Item = f64> + '_ {
        self.targets.iter().enumerate().map(|(k, &j)| self.goals.at(k, j, self.time))
    }

    /// Goes on to the next phase after so many reports; says whether it did.
    fn pass(&mut self, reports: usize, next: Phase) -> bool {
        let over = self.reports >= reports;
        if over {
            (self.phase, self.reports) = (next, 0);
        }
        over
    }

    fn steer(&mut self, means: &[f64]) {
        let distances: Vec<f64> =
            self.goals_now().zip(&self.targets).map(|(goal, &j)| goal - means[j]).collect();
        let first = self.first.get_or_insert_with(|| distances.clone());
        let way = match self.corrections {
            0 if self.phase == Phase::Settle => (self.reports as f64 / self.lengths.ramp as f64).min(1.0),
            _ => 1.0,
        };
        for (k, distance) in distances.into_iter().enumerate() {
            let distance = distance - (1.0 - way) * first[k];
            self.integral[k] += INTEGRAL * self.interval * distance;
            self.shifts[k] = self.integral[k] + PROPORTIONAL * distance;
        }
        // In units in which chains start with deviation 1.
        let far = first.iter().fold(1.0, |far: f64, distance| far.max(distance.abs()));
        if !self.shifts.iter().all(|shift| shift.abs() <= MOST_EFFORT * far) {
            (self.lost, self.phase) = (true, Phase::Done);
        }
    }

    /// Ends the search if the means are reached. Otherwise the shifts are corrected and tried again: by as much as the misses ask for, and if that
    /// does not help by steering again. In the end means are averaged for longer, because a few chains do not tell.
    fn judge(&mut self) {
        // A track ends with its simulation, and its noise cancels: longer averages would tell nothing new.
        let follows = matches!(self.goals, Goals::Follow { .. });
        if follows || self.miss() <= TOLERANCE {
            self.phase = Phase::Done;
        } else if self.adjustments < ADJUSTMENTS && self.adjust() {
            self.adjustments += 1;
            self.phase = Phase::Forget;
            (self.held, self.windows) = Default::default();
        } else if self.corrections < CORRECTIONS {
            self.corrections += 1;
            self.adjustments = 0;
            self.phase = Phase::Settle;
            self.integral.clone_from(&self.shifts);
            (self.average, self.held, self.windows) = Default::default();
        } else if self.windows == WINDOWS {
            self.phase = Phase::Done;
        }
    }

    /// Corrects the shifts by the misses, as far as the shifts have moved the means so far; false if that is not known.
    fn adjust(&mut self) -> bool {
        let (means, goals) = (self.held.0.values(), self.held.2.values());
        let Some(first) = &self.first else { return false };
        let ratios = self.targets.iter().enumerate().map(|(k, &j)| {
            // From where the means were at first, without shifts.
            let moved = means[j] - (goals[k] - first[k]);
            self.shifts[k] / moved
        });
        let ratios: Vec<f64> = ratios.collect();
        // Where a mean hardly moves, or against its shift, other variables matter more.
        if !ratios.iter().all(|ratio| (LEAST_RATIO..=MOST_RATIO).contains(ratio)) {
            return false;
        }
        for (k, &j) in self.targets.iter().enumerate() {
            self.shifts[k] += ratios[k] * (goals[k] - means[j]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steers the means of a linear system x' = W x + shift, without noise but with variance 1; returns shifts and reports.
    fn steered(w: [[f64; 2]; 2], targets: &[usize], goals: &[f64]) -> (Steering, usize) {
        let mut steering = Steering::new(targets, Goals::Means(goals.to_vec()), 3000, 0.01);
        let (mut x, mut reports) = ([0.0f64; 2], 0);
        while !steering.is_done() && x[0].abs() < 1e10 {
            let mut shift = [0.0; 2];
            steering.shifts().for_each(|(j, by)| shift[j] = by);
            for _ in 0..steering.steps() {
                let drift = |j: usize| w[j][0] * x[0] + w[j][1] * x[1] + shift[j];
                let by = [drift(0), drift(1)];
                x = [x[0] + 0.01 * by[0], x[1] + 0.01 * by[1]];
            }
            steering.report(&x, &x.map(|x| x * x + 1.0));
            reports += 1;
        }
        (steering, reports)
    }

    #[test]
    fn a_linear_system_is_steered_to_its_closed_form() {
        // −W⁻¹ s = goal.
        let w = [[-1.0, 0.6], [-0.8, -1.0]];
        let (one, reports) = steered(w, &[0], &[7.0]);
        let determinant = 1.0 + 0.48;
        let expected = 7.0 * determinant;
        let found: Vec<f64> = one.shifts().map(|(_, by)| by).collect();
        assert!((found[0] - expected).abs() < 0.01 * expected, "{found:?}");
        assert!(one.miss() < TOLERANCE && reports == one.usual_reports());
        let (two, _) = steered(w, &[0, 1], &[3.0, -2.0]);
        let found: Vec<f64> = two.shifts().map(|(_, by)| by).collect();
        for (found, expected) in found.iter().zip([3.0 + 1.2, 2.4 - 2.0]) {
            assert!((found - expected).abs() < 0.02, "{found} {expected}");
        }
        assert!(two.miss() < TOLERANCE);
    }

    #[test]
    fn a_variable_whose_mean_cannot_be_held_is_told_by_the_miss() {
        // Stable, but the second variable alone is not.
        let (lost, _) = steered([[-1.0, -2.0], [2.0, 0.5]], &[0], &[1.0]);
        assert!(!lost.is_done() || lost.miss() > 1.0);
    }

    #[test]
    fn a_small_miss_is_corrected_without_steering_again() {
        // The held mean is 0.9 of the shift, whatever was averaged: 10 % off at first.
        let mut steering = Steering::new(&[0], Goals::Means(vec![2.0]), 3000, 0.01);
        let (mut mean, mut reports) = (0.0, 0);
        while !steering.is_done() {
            let shift = steering.shifts().next().unwrap().1;
            let target =
                if matches!(steering.phase, Phase::Forget | Phase::Hold) { 0.9 * shift } else { shift };
            mean += 0.1 * (target - mean);
            steering.report(&[mean], &[mean * mean + 1.0]);
            reports += 1;
        }
        assert!(steering.miss() < TOLERANCE && (mean - 2.0).abs() < 0.02, "{mean}");
        let Lengths { forget, window, .. } = steering.lengths;
        assert_eq!((reports, steering.corrections), (steering.usual_reports() + forget + window, 0));
    }

    #[test]
    fn without_targets_means_are_measured() {
        let (still, reports) = steered([[-1.0, 0.0], [0.0, -1.0]], &[], &[]);
        assert_eq!((still.miss(), reports), (0.0, still.usual_reports()));
        assert_eq!(still.into_track(), vec![vec![0.0; 2]; reports]);
    }

    #[test]
    fn a_track_is_followed_whatever_its_noise() {
        // The track of x' = −x + noise; the same noise moves what is steered.
        let noise = |t: usize| (1.7 * t as f64).sin();
        let walk = |steering: &mut Steering| {
            let mut x = 0.0;
            for t in 0.. {
                if steering.is_done() {
                    return;
                }
                let shift = steering.shifts().map(|(_, by)| by).sum::<f64>();
                x += 0.1 * (shift - x + noise(t));
                steering.report(&[x], &[x * x + 1.0]);
            }
        };
        let mut base = Steering::new(&[], Goals::Means(Vec::new()), 3000, 0.01);
        walk(&mut base);
        let goals = Goals::Follow { track: Arc::new(base.into_track()), changes: vec![0.01] };
        let mut steering = Steering::new(&[0], goals, 3000, 0.01);
        walk(&mut steering);
        let found = steering.shifts().next().unwrap().1;
        assert!((found - 0.01).abs() < 1e-4 && steering.miss() < 1e-3, "{found} {}", steering.miss());
    }

    #[test]
    fn noisy_means_are_averaged_for_longer_and_then_corrected() {
        let mut steering = Steering::new(&[0], Goals::Means(vec![0.0]), 3000, 0.01);
        let mut reports = 0;
        while !steering.is_done() {
            // The held mean is always off.
            let off = if steering.phase == Phase::Hold { 0.5 } else { 0.0 };
            steering.report(&[off], &[1.0 + off * off]);
            reports += 1;
        }
        assert!(steering.miss() > 0.4 && reports > 4 * steering.usual_reports(), "{reports}");
    }
}
