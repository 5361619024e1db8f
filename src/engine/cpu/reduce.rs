//! Sums over samples, in a fixed order: lanes within a task, tasks in f64.

use super::drift::row_tasks;
use super::rows::SampleRows;
use crate::Scalar;
use crate::numeric::simd::{LANES, dispatch, total};
use crate::numeric::tasks::{self, Cutter};

/// Numbers that are added in precision `T` before f64 takes over.
const RUN: usize = 1024;

/// The sum of a slice: lanes within runs, runs in f64. The sum of nothing is 0.
#[inline(always)]
pub(super) fn long_sum<T: Scalar>(values: &[T]) -> f64 {
    let mut sum = 0.0;
    for run in values.chunks(RUN) {
        let (groups, rest) = run.as_chunks::<LANES>();
        let mut lanes = [T::ZERO; LANES];
        for group in groups {
            for l in 0..LANES {
                lanes[l] += group[l];
            }
        }
        for (lane, value) in lanes.iter_mut().zip(rest) {
            *lane += *value;
        }
        sum += total(lanes).to_f64();
    }
    sum
}

/// The sums of each column over each environment, E × p.
pub(super) fn column_sums<T: Scalar>(rows: SampleRows<'_, T>, offsets: &[usize]) -> Vec<f64> {
    let SampleRows { data, n, p, stride } = rows;
    let tasks: Vec<_> = row_tasks(offsets).collect();
    let mut shares = vec![T::ZERO; tasks.len() * p];
    let mut cut = Cutter::new(&mut shares);
    let parts: Vec<_> = tasks.iter().map(|(_, rows)| (rows.clone(), cut.take(p))).collect();
    tasks::run(parts, n * p * 2, |(rows, share): (std::ops::Range<usize>, &mut [T])| {
        dispatch(
            #[inline(always)]
            || {
                for i in rows {
                    let row = &data[i * stride..i * stride + p];
                    share.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
                }
            },
        );
    });
    let mut sums = vec![0.0f64; (offsets.len() - 1) * p];
    for ((e, _), share) in tasks.iter().zip(shares.chunks_exact(p)) {
        sums[e * p..(e + 1) * p].iter_mut().zip(share).for_each(|(sum, s)| *sum += s.to_f64());
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sums_do_not_lose_small_terms() {
        // Ten million times 0.1 in f32: adding one by one would be off by eight percent.
        let sum = long_sum(&vec![0.1f32; 10_000_000]);
        assert!((sum / (10_000_000.0 * f64::from(0.1f32)) - 1.0).abs() < 1e-6, "{sum}");
        assert_eq!(long_sum::<f64>(&[]), 0.0);
        assert_eq!(long_sum(&[1.0, 2.0, 3.0]), 6.0);
        let mixed: Vec<f64> = (0..5000).flat_map(|_| [1e12, 1.0, -1e12]).collect();
        assert_eq!(long_sum(&mixed), 5000.0);
    }

    #[test]
    fn columns_are_summed_by_environment() {
        let data: Vec<f64> = (0..300 * 4).map(|k| k as f64).collect();
        let offsets = [0, 131, 300];
        let sums = column_sums(SampleRows { data: &data, n: 300, p: 3, stride: 4 }, &offsets);
        for e in 0..2 {
            for j in 0..3 {
                let expected: f64 = (offsets[e]..offsets[e + 1]).map(|i| data[4 * i + j]).sum();
                assert_eq!(sums[3 * e + j], expected);
            }
        }
    }
}
