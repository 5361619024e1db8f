use super::tests::{KDS, TIGHT, V, fit, quadratic, spec, weights};
use super::*;
use crate::kernel::Kernel;
use crate::sample::Gaussian;
use crate::solve::tests::data;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The mean distance of W from the truth, without a penalty, for samples of a diffusion that goes round in circles.
fn error(objective: Objective, rows: usize, seeds: std::ops::Range<u64>) -> f64 {
    let truth = Matrix::from_rows(3, 3, vec![-1.0, 0.9, 0.0, -0.9, -1.0, 0.7, 0.6, -0.5, -1.0]);
    let noise = Matrix::from_fn(3, 3, |i, j| if i == j { 1.0 } else { 0.0 });
    let targets = Matrix::from_fn(4, 3, |e, j| e == j + 1);
    let count = seeds.end - seeds.start;
    let mut sum = 0.0;
    for seed in seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let environments = (0..4).map(|e| {
            let bias: Vec<f64> = (0..3).map(|j| if targets[(e, j)] { 2.0 } else { 0.0 }).collect();
            Gaussian::stationary(&truth, &bias, &noise).unwrap().draw(rows, &mut rng).unwrap()
        });
        let data = Dataset::from_environments(environments.collect()).unwrap();
        let data = data.with_targets(targets.clone()).unwrap();
        let kernel = Kernel::Rbf { bandwidth: 2.0 };
        let found = fit(
            &data,
            QuadraticSpec { products: Some(ProductMethod::Formed), ..spec(objective, kernel, V) },
            None,
        );
        let pairs = weights(&found).as_slice().iter().zip(truth.as_slice());
        sum += pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    }
    sum / count as f64
}

#[test]
fn kds_finds_a_diffusion_that_is_not_reversible_and_skds_does_not() {
    let few = [error(KDS, 100, 0..6), error(Objective::Skds, 100, 0..6)];
    let many = [error(KDS, 1600, 10..12), error(Objective::Skds, 1600, 10..12)];
    assert!(many[0] < few[0] / 2.5, "{few:?} {many:?}");
    assert!(many[1] > few[1] / 1.3, "{few:?} {many:?}");
}

/// Without room for all blocks, those of a step are made when they are needed.
#[test]
fn blocks_are_the_same_whether_they_are_kept_or_not() {
    let data = data(&[50, 40, 30], 4, 2);
    let spec = QuadraticSpec { learn_scale: true, ..spec(KDS, Kernel::ImqPlus, V) };
    let mut other = quadratic(&data, spec);
    let t: Vec<f64> = (0..other.unknowns()).map(|k| (k as f64 * 0.7).sin()).collect();
    let among: Vec<bool> = (0..t.len()).map(|k| k % 3 != 0).collect();
    let (times, blocks) = (other.metric.times(&t), other.metric.blocks(&among));
    other.metric.forget();
    let largest = times.iter().fold(0.0f64, |m, value| m.max(value.abs()));
    for (a, b) in other.metric.times(&t).iter().zip(&times) {
        assert!((a - b).abs() < 1e-8 * largest, "{a} {b}");
    }
    for ((rows, a), (expected, b)) in other.metric.blocks(&among).into_iter().zip(blocks) {
        assert_eq!(rows, expected);
        assert_eq!(a.unwrap(), b.unwrap());
    }
    let penalty = Some(Penalty::new(crate::model::PenaltyKind::Both, 0.02));
    let a = other.fit(penalty, None, TIGHT, &Progress::default()).unwrap();
    let b = fit(&data, spec, penalty);
    assert!(a.violation < 1e-8 && (a.loss - b.loss).abs() < 1e-9, "{} {}", a.loss, b.loss);
}
