//! Timing in turns: contenders run one after the other, again and again, so that noise slows all of them equally.

use crate::Result;
use crate::numeric::statistics::median;
use serde::Serialize;
use std::time::Instant;

/// Uncounted seconds at the start of a turn: the caches hold another contender's data, its threads may still spin, and one's own
/// have fallen asleep.
const WARM_UP: f64 = 0.005;
/// A measurement is noisy if its interquartile range exceeds this share of the median.
const NOISY: f64 = 0.2;

/// A computation to time.
pub struct Contender<'a> {
    name: String,
    /// Runs it `count` times and returns the seconds of each run.
    run: Box<dyn FnMut(usize) -> Result<Vec<f64>> + 'a>,
}

impl<'a> Contender<'a> {
    /// A function that this module times.
    pub fn new<T>(name: impl Into<String>, mut once: impl FnMut() -> Result<T> + 'a) -> Self {
        Contender::timed(name, move |count| {
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let start = Instant::now();
                once()?;
                times.push(start.elapsed().as_secs_f64());
            }
            Ok(times)
        })
    }

    /// A function that times itself: given a number of repetitions, it returns the seconds of each.
    pub fn timed(name: impl Into<String>, run: impl FnMut(usize) -> Result<Vec<f64>> + 'a) -> Self {
        Contender { name: name.into(), run: Box::new(run) }
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// The number of turns of each contender.
    pub turns: usize,
    /// The largest number of repetitions in a turn.
    pub repetitions: usize,
    /// The time after which a turn ends early.
    pub seconds: f64,
}

impl Effort {
    /// The paper's fifty repetitions.
    pub const PAPER: Effort = Effort { turns: 10, repetitions: 5, seconds: 0.5 };
    /// For large sweeps.
    pub const SWEEP: Effort = Effort { turns: 5, repetitions: 5, seconds: 0.15 };
    /// For a quick look.
    pub const QUICK: Effort = Effort { turns: 5, repetitions: 3, seconds: 0.05 };
}

/// The seconds of every repetition, by turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The contender's name.
    pub name: String,
    turns: Vec<Vec<f64>>,
}

/// Runs contenders in turns, after one turn that does not count.
pub fn race(contenders: &mut [Contender<'_>], effort: Effort) -> Result<Vec<Timing>> {
    // The second of two runs tells how many fit into a turn: the first pays for caches, pages and compilers.
    let mut counts = Vec::new();
    for contender in contenders.iter_mut() {
        (contender.run)(1)?;
        let once = (contender.run)(1)?[0].max(1e-6);
        let count = ((effort.seconds / once) as usize).clamp(1, effort.repetitions);
        // A contender that runs only once in a turn warms up by itself.
        let warm_up = if count > 1 { (WARM_UP / once).ceil() as usize } else { 0 };
        counts.push((warm_up, count));
    }
    let mut timings: Vec<Timing> =
        contenders.iter().map(|c| Timing { name: c.name.clone(), turns: Vec::new() }).collect();
    for _ in 0..effort.turns {
        for ((contender, timing), &(warm_up, count)) in contenders.iter_mut().zip(&mut timings).zip(&counts) {
            if warm_up > 0 {
                (contender.run)(warm_up)?;
            }
            timing.turns.push((contender.run)(count)?);
        }
    }
    Ok(timings)
}

/// Whether the repetitions of a measurement agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steadiness {
    /// The interquartile range is small.
    Quiet,
    /// The interquartile range is large.
    Noisy,
}

impl Timing {
    fn all(&self) -> Vec<f64> {
        self.turns.concat()
    }

    /// The number of repetitions.
    pub fn count(&self) -> usize {
        self.turns.iter().map(Vec::len).sum()
    }

    /// The median in seconds.
    pub fn median(&self) -> f64 {
        median(&self.all())
    }

    /// The fastest repetition in seconds.
    pub fn min(&self) -> f64 {
        self.all().into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The mean in seconds.
    pub fn mean(&self) -> f64 {
        let all = self.all();
        all.iter().sum::<f64>() / all.len() as f64
    }

    /// The standard deviation in seconds; 0 for a single repetition.
    pub fn deviation(&self) -> f64 {
        let (all, mean) = (self.all(), self.mean());
        let squares: f64 = all.iter().map(|t| (t - mean) * (t - mean)).sum();
        (squares / (all.len().max(2) - 1) as f64).sqrt()
    }

    /// The interquartile range divided by the median.
    pub fn spread(&self) -> f64 {
        let mut all = self.all();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[(share * (all.len() - 1) as f64).round() as usize];
        (at(0.75) - at(0.25)) / self.median()
    }

    /// Whether the repetitions agree.
    pub fn noise(&self) -> Steadiness {
        if self.spread() > NOISY { Steadiness::Noisy } else { Steadiness::Quiet }
    }

    /// How many times as long this took as `other`, turn by turn: noise affects both sides of a turn equally.
    pub fn over(&self, other: &Timing) -> Ratio {
        let mut ratios: Vec<f64> =
            self.turns.iter().zip(&other.turns).map(|(a, b)| median(a) / median(b)).collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len() - 1;
        Ratio { median: median(&ratios), low: ratios[last / 4], high: ratios[last - last / 4] }
    }
}

/// The ratio of two times, with its quartiles over turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(turns: &[&[f64]]) -> Timing {
        Timing { name: "t".into(), turns: turns.iter().map(|turn| turn.to_vec()).collect() }
    }

    #[test]
    fn statistics_are_those_of_all_repetitions() {
        let timing = timing(&[&[1.0, 2.0], &[3.0], &[4.0, 10.0]]);
        assert_eq!((timing.count(), timing.median(), timing.min(), timing.mean()), (5, 3.0, 1.0, 4.0));
        assert!((timing.deviation() - 12.5f64.sqrt()).abs() < 1e-12);
        assert_eq!((timing.spread(), timing.noise()), (2.0 / 3.0, Steadiness::Noisy));
        assert_eq!(self::timing(&[&[1.0, 1.1, 1.0]]).noise(), Steadiness::Quiet);
    }

    #[test]
    fn a_slow_turn_does_not_move_a_ratio() {
        // The machine stood still in the second turn, for both.
        let (a, b) = (timing(&[&[2.0], &[20.0], &[2.0]]), timing(&[&[1.0], &[10.0], &[1.0]]));
        assert_eq!(a.over(&b), Ratio { median: 2.0, low: 2.0, high: 2.0 });
    }

    #[test]
    fn contenders_take_turns_and_errors_end_the_race() {
        let order = std::cell::RefCell::new(Vec::new());
        let contender = |name: &'static str| {
            let order = &order;
            Contender::timed(name, move |count| {
                order.borrow_mut().push(name);
                Ok(vec![0.01; count])
            })
        };
        let effort = Effort { turns: 2, repetitions: 9, seconds: 0.03 };
        let found = race(&mut [contender("a"), contender("b")], effort).unwrap();
        // Three fit into 0.03 s; two runs before, one to warm up in each turn.
        assert_eq!((found[0].count(), found[1].count()), (6, 6));
        assert_eq!(*order.borrow(), ["a", "a", "b", "b", "a", "a", "b", "b", "a", "a", "b", "b"]);
        let failing = Contender::new("f", || Err::<(), _>(crate::Error::invalid("no")));
        assert!(race(&mut [failing], effort).is_err());
    }
}
