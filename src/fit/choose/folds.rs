//! Folds: which environments are left out together.

use crate::Matrix;

/// The most folds. With more interventions, groups are left out.
const MOST: usize = 10;

/// Environments that are left out together.
pub(in crate::fit) struct Folds {
    /// The environments of each fold.
    pub left_out: Vec<Vec<usize>>,
    /// The part of the moments that each environment belongs to: 0 for those that are never left out.
    pub parts: Vec<usize>,
}

impl Folds {
    /// Every environment with targets is left out once; neighbours go to different groups.
    pub(crate) fn of(targets: &Matrix<bool>) -> Folds {
        Folds::at_most(MOST, targets)
    }

    /// The same in at most so many groups.
    pub(crate) fn at_most(most: usize, targets: &Matrix<bool>) -> Folds {
        let intervened: Vec<usize> =
            (0..targets.rows()).filter(|&e| targets.row(e).contains(&true)).collect();
        let count = intervened.len().min(most);
        let mut folds = Folds { left_out: vec![Vec::new(); count], parts: vec![0; targets.rows()] };
        for (k, &e) in intervened.iter().enumerate() {
            folds.left_out[k % count].push(e);
            folds.parts[e] = 1 + k % count;
        }
        if intervened.len() == targets.rows() {
            // No environment is in every fit, so the parts start at 0.
            folds.parts.iter_mut().for_each(|part| *part -= 1);
        }
        folds
    }

    /// Makes every environment a part of the moments by itself.
    pub(crate) fn separate(&mut self) {
        self.parts = (0..self.parts.len()).collect();
    }

    /// The parts of a fold's environments.
    pub(crate) fn parts_of(&self, fold: usize) -> Vec<usize> {
        let mut parts: Vec<usize> = self.left_out[fold].iter().map(|&e| self.parts[e]).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }
}
