//! What anyone can predict without a model: a claim about a prediction stands beside it.

use crate::data::Dataset;
use crate::predict::{Origin, TransportMap, Wanted};

/// The targets go where they were told to be, and nothing else moves.
pub(super) fn no_effect(origin: &Origin, wanted: &Wanted) -> TransportMap {
    let mut shift = vec![0.0; origin.means.len()];
    wanted.targets.iter().zip(&wanted.means).for_each(|(&j, mean)| shift[j] = mean - origin.means[j]);
    TransportMap { shift, deviations: None }
}

/// The effects of a combination are the sum of what was observed when each of its targets was intervened on alone: the
/// changes of all means. None unless there are several targets and the training data has each of them alone.
pub(super) fn additive(train: &Dataset, origin: &Origin, wanted: &Wanted) -> Option<TransportMap> {
    if wanted.targets.len() < 2 {
        return None;
    }
    let mut shift = vec![0.0; origin.means.len()];
    for &target in &wanted.targets {
        let alone = means_under(train, target)?;
        shift.iter_mut().zip(alone.iter().zip(&origin.means)).for_each(|(s, (m, rest))| *s += m - rest);
    }
    Some(TransportMap { shift, deviations: None })
}

/// The means of all rows under interventions on one variable alone.
fn means_under(train: &Dataset, target: usize) -> Option<Vec<f64>> {
    let alone = |e: &usize| (0..train.dim()).all(|j| train.targets()[(*e, j)] == (j == target));
    let (mut sums, mut rows) = (vec![0.0; train.dim()], 0.0);
    for e in (0..train.environments()).filter(alone) {
        let n = train.rows(e).len() as f64;
        sums.iter_mut().zip(train.means(e)).for_each(|(sum, mean)| *sum += n * mean);
        rows += n;
    }
    (rows > 0.0).then(|| sums.iter().map(|sum| sum / rows).collect())
}
