//! Floors: predictions that need no model, for comparison with the model's.

use crate::data::Dataset;
use crate::predict::{Origin, TargetMeans, TransportMap};

/// The targets go to their given means, and nothing else moves.
pub(super) fn no_effect(origin: &Origin, wanted: &TargetMeans) -> TransportMap {
    let mut shift = vec![0.0; origin.means.len()];
    wanted.targets.iter().zip(&wanted.means).for_each(|(&j, mean)| shift[j] = mean - origin.means[j]);
    TransportMap { shift, deviations: None }
}

/// The effect of a combination is the sum of the observed changes of all means when each target was intervened on alone. None
/// unless there are several targets and the training data has each of them alone.
pub(super) fn additive(train: &Dataset, origin: &Origin, wanted: &TargetMeans) -> Option<TransportMap> {
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
