//! Training and validation rows, and batches of them with samples side by side.

use super::lanes::{Lanes, WIDTH};
use crate::Scalar;
use crate::data::Dataset;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// The share of rows to learn from; the others validate.
const TRAINING_SHARE: f64 = 0.8;

/// The rows of a dataset, split at random.
pub(super) struct Rows<'a> {
    data: &'a Dataset,
    /// Rows to learn from, in an order that changes with every draw.
    training: Vec<usize>,
    /// Ascending.
    validation: Vec<usize>,
    /// The last draw, ascending.
    drawn: Vec<usize>,
}

impl<'a> Rows<'a> {
    /// Splits the rows. Both parts get at least one row.
    pub(super) fn split(data: &'a Dataset, rng: &mut ChaCha8Rng) -> Self {
        let count = data.samples().rows();
        let mut training: Vec<usize> = (0..count).collect();
        for n in (1..count).rev() {
            training.swap(n, rng.random_range(0..=n));
        }
        let kept = (TRAINING_SHARE * count as f64).floor() as usize;
        let mut validation = training.split_off(kept.clamp(1, count - 1));
        validation.sort_unstable();
        Rows { data, training, validation, drawn: Vec::new() }
    }

    /// The number of rows to learn from.
    pub(super) fn training_count(&self) -> usize {
        self.training.len()
    }

    /// The validation rows, in parts that fit a batch of `size`.
    pub(super) fn validation_parts(&self, size: usize) -> impl Iterator<Item = &[usize]> {
        self.validation.chunks(size)
    }

    /// The number of validation rows.
    pub(super) fn validation_count(&self) -> usize {
        self.validation.len()
    }

    /// Draws `size` distinct training rows, ascending.
    pub(super) fn draw(&mut self, size: usize, rng: &mut ChaCha8Rng) -> &[usize] {
        let count = self.training.len();
        for n in 0..size {
            // The start of a random permutation: any order before it serves.
            self.training.swap(n, rng.random_range(n..count));
        }
        self.drawn.clear();
        self.drawn.extend_from_slice(&self.training[..size]);
        self.drawn.sort_unstable();
        &self.drawn
    }

    /// The dataset.
    pub(super) fn data(&self) -> &'a Dataset {
        self.data
    }
}

/// Rows with the samples of a variable side by side, in whole groups, environment after environment.
pub(super) struct Batch<T> {
    /// Groups per variable.
    pub groups: usize,
    /// Samples; the rest of the last group is padding.
    pub count: usize,
    /// Variables × groups.
    pub values: Vec<Lanes<T>>,
    /// The samples of each environment.
    pub environments: Vec<Range<usize>>,
}

impl<T: Scalar> Batch<T> {
    /// An empty batch with room for `size` rows.
    pub(super) fn new(data: &Dataset, size: usize) -> Self {
        let groups = size.div_ceil(WIDTH);
        Batch {
            groups,
            count: 0,
            values: vec![[T::ZERO; WIDTH]; data.dim() * groups],
            environments: vec![0..0; data.environments()],
        }
    }

    /// Replaces the rows by `rows`, which are ascending.
    pub(super) fn fill(&mut self, data: &Dataset, rows: &[usize]) {
        self.count = rows.len();
        let width = self.groups * WIDTH;
        let values = self.values.as_flattened_mut();
        for (s, &row) in rows.iter().enumerate() {
            for (i, &value) in data.samples().row(row).iter().enumerate() {
                values[i * width + s] = T::from_f64(value);
            }
        }
        for i in 0..data.dim() {
            values[i * width + rows.len()..(i + 1) * width].fill(T::ZERO);
        }
        let mut start = 0;
        for (e, range) in self.environments.iter_mut().enumerate() {
            let end = start + rows[start..].partition_point(|&row| row < data.offsets()[e + 1]);
            *range = start..end;
            start = end;
        }
    }
}
