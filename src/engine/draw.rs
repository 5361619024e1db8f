//! Which environments and rows a training step sees. They depend on the seed and the step alone, by integer arithmetic
//! that `shaders/draw.wgsl` repeats. So every device draws the same batches, and a resumed fit sees the batches that an
//! uninterrupted one would have seen.

/// Rounds of the Feistel network, and the fewest bits of its halves: enough to leave no pattern among the pairs of a
/// batch, for a handful of rows too.
pub(super) const ROUNDS: u32 = 8;
pub(super) const LEAST_BITS: u32 = 3;

/// Scrambles a number (an invertible mix of shifts and products).
pub(crate) fn mix(value: u32) -> u32 {
    let mut h = value;
    h ^= h >> 16;
    h = h.wrapping_mul(0x7feb_352d);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846c_a68b);
    h ^ (h >> 16)
}

/// A key made of the seed, the step and what it is for.
pub(crate) fn key(seed: u64, step: u32, purpose: u32) -> u32 {
    let low = mix(seed as u32 ^ 0x9e37_79b9);
    let high = mix(low ^ (seed >> 32) as u32);
    mix(mix(high ^ step).wrapping_add(purpose.wrapping_mul(0x85eb_ca6b)))
}

/// Where a permutation of 0 … n − 1, chosen by `key`, sends `at`: a Feistel network on an even number of bits, walked
/// until it falls below n.
pub(crate) fn permuted(key: u32, at: u32, n: u32) -> u32 {
    if n <= 1 {
        return 0;
    }
    let bits = (32 - (n - 1).leading_zeros()).div_ceil(2).max(LEAST_BITS);
    let mask = (1u32 << bits) - 1;
    let mut value = at;
    loop {
        let (mut left, mut right) = (value >> bits, value & mask);
        for round in 0..ROUNDS {
            let scrambled = mix(right ^ key.wrapping_add(round.wrapping_mul(0x9e37_79b9))) & mask;
            (left, right) = (right, left ^ scrambled);
        }
        value = (left << bits) | right;
        if value < n {
            return value;
        }
    }
}

/// Batches of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// The seed of every draw.
    pub seed: u64,
    /// Rows per environment and step. An environment with fewer rows repeats some.
    pub rows: usize,
    /// Environments per step.
    pub environments: usize,
}

impl Batches {
    /// The environment in place `slot` of step `step` (from 0), out of `all`. The environments of a step differ.
    pub fn environment(&self, step: u32, slot: usize, all: usize) -> usize {
        if self.environments == all {
            return slot;
        }
        permuted(key(self.seed, step, 0), slot as u32, all as u32) as usize
    }

    /// Row `at` of the batch of `environment`, which has `n` rows. Rows are drawn without replacement, and again from all
    /// once all were drawn.
    pub fn row(&self, step: u32, environment: usize, at: usize, n: usize) -> usize {
        let (round, at) = (at / n, at % n);
        let key = mix(key(self.seed, step, 1 + environment as u32).wrapping_add(round as u32));
        permuted(key, at as u32, n as u32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_permutations_and_differ_by_key() {
        for n in [1u32, 2, 3, 5, 16, 17, 1000] {
            let mut seen: Vec<u32> = (0..n).map(|at| permuted(7, at, n)).collect();
            let other: Vec<u32> = (0..n).map(|at| permuted(8, at, n)).collect();
            assert!(n < 16 || seen != other);
            seen.sort();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn draws_are_uniform_over_rows_and_pairs() {
        // Neighbours in a batch form pairs: each ordered pair of different rows must be as likely as any other.
        let batches = Batches { seed: 3, rows: 2, environments: 1 };
        let (n, steps) = (6, 60_000);
        let mut counts = vec![0.0f64; n * n];
        for step in 0..steps {
            let (one, two) = (batches.row(step, 0, 0, n), batches.row(step, 0, 1, n));
            counts[one * n + two] += 1.0;
        }
        let expected = f64::from(steps) / (n * (n - 1)) as f64;
        let mut chi = 0.0;
        for one in 0..n {
            assert_eq!(counts[one * n + one], 0.0, "a row met itself");
            for two in (0..n).filter(|two| *two != one) {
                chi += (counts[one * n + two] - expected).powi(2) / expected;
            }
        }
        // 29 degrees of freedom: mean 29, standard deviation 7.6.
        assert!(chi < 70.0, "{chi}");
    }

    #[test]
    fn environments_are_uniform_and_never_twice_in_a_step() {
        let batches = Batches { seed: 11, rows: 4, environments: 3 };
        let mut counts = [0u32; 7];
        for step in 0..7000 {
            let mut drawn: Vec<usize> = (0..3).map(|slot| batches.environment(step, slot, 7)).collect();
            drawn.iter().for_each(|&e| counts[e] += 1);
            drawn.sort();
            drawn.dedup();
            assert_eq!(drawn.len(), 3);
        }
        assert!(counts.iter().all(|&c| (2800..3200).contains(&c)), "{counts:?}");
        let all = Batches { environments: 7, ..batches };
        assert_eq!((0..7).map(|slot| all.environment(5, slot, 7)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn small_environments_are_gone_through_more_than_once() {
        let batches = Batches { seed: 1, rows: 10, environments: 1 };
        let mut counts = [0; 4];
        (0..8).for_each(|at| counts[batches.row(0, 2, at, 4)] += 1);
        assert_eq!(counts, [2, 2, 2, 2]);
    }
}
