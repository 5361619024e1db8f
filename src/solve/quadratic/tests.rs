use super::*;
use crate::kernel::Kernel;
use crate::model::{Noise, PenaltyKind};
use crate::solve::tests::{basis, data, kernels};
use crate::solve::{ExactSolver, ExactSpec};

pub(super) const TIGHT: Tolerance = Tolerance { violation: 1e-9, steps: 3000 };
pub(super) const KDS: Objective = Objective::Kds;
pub(super) const V: Estimator = Estimator::V;

pub(super) fn spec(objective: Objective, kernel: Kernel, estimator: Estimator) -> QuadraticSpec<'static> {
    let loss = LossSpec { objective, kernel, estimator };
    QuadraticSpec {
        loss,
        learn_scale: false,
        multipliers: None,
        fits: 1,
        products: Some(ProductMethod::ByGradients),
    }
}

pub(super) fn quadratic(data: &Dataset, spec: QuadraticSpec<'_>) -> Quadratic {
    Quadratic::new(None, data, data.targets(), &Design::Linear, spec, &Progress::default()).unwrap()
}

pub(super) fn fit(data: &Dataset, spec: QuadraticSpec<'_>, penalty: Option<Penalty>) -> Solution {
    quadratic(data, spec).fit(penalty, None, TIGHT, &Progress::default()).unwrap()
}

pub(super) fn weights(solution: &Solution) -> &Matrix<f64> {
    (solution.parameters.drift.linear_weights().unwrap()) as _
}

fn furthest(a: &Parameters<f64>, b: &Parameters<f64>) -> f64 {
    let (a, b) = (a.tensors(), b.tensors());
    let pairs = a.iter().zip(&b).flat_map(|(a, b)| a.values.iter().zip(b.values));
    pairs.fold(0.0, |m, (a, b)| m.max((a - b).abs()))
}

/// By how much the engine's own gradient misses the conditions of a minimum, relative to the largest slope of an effect where
/// there are none.
fn missed(data: &Dataset, spec: &QuadraticSpec<'_>, penalty: Penalty, found: &Solution) -> f64 {
    let d = data.dim();
    let mut engine = CpuEngine.load(data, &spec.loss).unwrap();
    let mut slopes_at = |parameters: &Parameters<f64>| {
        let mut gradient = parameters.zeros_like();
        let loss = engine.evaluate(parameters, Some(&mut gradient)).unwrap();
        gradient.mask_fixed(data.targets());
        (loss, gradient)
    };
    let (loss, gradient) = slopes_at(&found.parameters);
    assert!((loss - found.loss).abs() <= 1e-12 * (1.0 + loss), "{loss} {}", found.loss);
    let finite = spec.multipliers.map(|by| by.map(|by| if by.is_finite() { by } else { 0.0 }));
    let charged = penalty.weighted_value(&found.parameters, finite.as_ref()).unwrap();
    assert!((charged - found.penalty).abs() < 1e-12 * (1.0 + charged), "{charged} {}", found.penalty);
    let weights = weights(found);
    let slopes = gradient.drift.linear_weights().unwrap();
    let strength = penalty.lambda / (d * d) as f64;
    let single = if penalty.kind == PenaltyKind::Outgoing { 0.0 } else { strength };
    let group = if penalty.kind == PenaltyKind::Ingoing { 0.0 } else { strength };
    let by = |j: usize, i: usize| spec.multipliers.map_or(1.0, |by| by[(j, i)]);
    let mut worst = 0.0f64;
    for i in 0..d {
        let members: Vec<usize> = (0..d).filter(|&j| j != i && by(j, i).is_finite()).collect();
        let size = members.iter().map(|&j| (by(j, i) * weights[(j, i)]).powi(2)).sum::<f64>().sqrt();
        let mut outside = 0.0;
        for &j in &members {
            let (m, w, slope) = (by(j, i), weights[(j, i)], slopes[(j, i)]);
            if m == 0.0 {
                worst = worst.max(slope.abs());
            } else if w != 0.0 {
                let share = if size > 0.0 { group * m * m * w / size } else { 0.0 };
                worst = worst.max((slope + single * m * w.signum() + share).abs());
            } else if size > 0.0 || group == 0.0 {
                worst = worst.max((slope.abs() - single * m).max(0.0));
            } else {
                outside += (slope.abs() / m - single).max(0.0).powi(2);
            }
        }
        worst = worst.max(outside.sqrt() - group);
    }
    let rest = gradient.tensors().into_iter().filter(|tensor| tensor.name != "weights");
    let worst = rest.flat_map(|tensor| tensor.values).fold(worst, |m, slope| m.max(slope.abs()));
    let all = Penalty::new(PenaltyKind::Ingoing, 1e9);
    let none = fit(data, QuadraticSpec { multipliers: None, ..*spec }, Some(all));
    let (_, gradient) = slopes_at(&none.parameters);
    let steepest = gradient.tensors()[0].values.iter().fold(0.0f64, |m, slope| m.max(slope.abs()));
    worst / steepest
}

#[test]
fn minima_of_kernel_kds_have_no_slope_by_the_engine() {
    let data = data(&[70, 60, 50], 4, 5);
    for kernel in kernels() {
        for &kind in PenaltyKind::ALL {
            for lambda in [0.0, 0.01, 0.05] {
                let penalty = Penalty::new(kind, lambda);
                let spec = spec(KDS, kernel, V);
                let found = fit(&data, spec, Some(penalty));
                assert!(found.violation < 1e-8, "{kernel:?} {kind} {lambda}: {}", found.violation);
                let missed = missed(&data, &spec, penalty, &found);
                assert!(missed < 1e-7, "{kernel:?} {kind} {lambda}: {missed}");
            }
        }
    }
}

#[test]
fn what_is_no_minimum_is_seen() {
    let data = data(&[60, 50, 40], 4, 3);
    let penalty = Penalty::new(PenaltyKind::Ingoing, 0.02);
    let spec = spec(KDS, Kernel::Rbf { bandwidth: 1.7 }, V);
    let mut found = fit(&data, spec, Some(penalty));
    assert!(missed(&data, &spec, penalty, &found) < 1e-7);
    found.parameters.biases[0] += 1e-4;
    found.loss = CpuEngine.load(&data, &spec.loss).unwrap().evaluate(&found.parameters, None).unwrap();
    assert!(missed(&data, &spec, penalty, &found) > 1e-6);
}

#[test]
fn everything_around_a_minimum_is_higher() {
    let data = data(&[60, 50, 40], 4, 3);
    let penalty = Penalty::new(PenaltyKind::Both, 0.02);
    let spec = spec(KDS, Kernel::TiltedRbf { bandwidth: 1.7 }, V);
    let spec = QuadraticSpec { learn_scale: true, ..spec };
    let found = fit(&data, spec, Some(penalty));
    assert!(weights(&found).as_slice().iter().filter(|w| **w != 0.0).count() > 4);
    let mut engine = CpuEngine.load(&data, &spec.loss).unwrap();
    let mut total = |parameters: &Parameters<f64>| {
        engine.evaluate(parameters, None).unwrap() + penalty.value(parameters).unwrap()
    };
    let best = total(&found.parameters);
    for t in 0..found.parameters.tensors().len() {
        for at in 0..found.parameters.tensors()[t].values.len() {
            for by in [-1e-4, 1e-4] {
                let mut moved = found.parameters.clone();
                moved.tensors_mut()[t].1[at] += by;
                moved.impose_fixed(data.targets());
                // A slope of 1e-7 would show.
                assert!(total(&moved) >= best - 1e-12, "tensor {t} entry {at}");
            }
        }
    }
}

#[test]
fn a_formed_h_leads_to_where_gradients_lead() {
    let data = data(&[70, 60, 50], 4, 6);
    for kernel in kernels() {
        for learn_scale in [false, true] {
            let free = QuadraticSpec { learn_scale, ..spec(KDS, kernel, V) };
            let (mut one, mut other) = (
                quadratic(&data, free),
                quadratic(&data, QuadraticSpec { products: Some(ProductMethod::Formed), ..free }),
            );
            assert_eq!(
                (one.product_method(), other.product_method()),
                (ProductMethod::ByGradients, ProductMethod::Formed)
            );
            let mut last: Option<Solution> = None;
            for &kind in PenaltyKind::ALL {
                let penalty = Some(Penalty::new(kind, 0.02));
                let progress = Progress::default();
                let a = one.fit(penalty, None, TIGHT, &progress).unwrap();
                // Where a fit begins makes no difference.
                let from = last.as_ref().map(|last| &last.parameters);
                let b = other.fit(penalty, from, TIGHT, &progress).unwrap();
                assert!(a.violation < 1e-8 && b.violation < 1e-8, "{} {}", a.violation, b.violation);
                let (x, y) = (a.loss + a.penalty, b.loss + b.penalty);
                assert!((x - y).abs() < 1e-12 * (1.0 + x), "{x} {y}");
                let away = furthest(&a.parameters, &b.parameters);
                assert!(away < 1e-7, "{kernel:?} {kind} {learn_scale}: {away}");
                last = Some(b);
            }
        }
    }
}

#[test]
fn skds_has_the_minimum_of_the_direct_solver() {
    let known = data(&[80, 60, 50], 5, 7);
    let unknown = known.clone().with_targets(Matrix::from_fn(3, 5, |e, _| e > 0)).unwrap();
    for (data, learn_scale) in [(&known, false), (&known, true), (&unknown, true)] {
        for kernel in kernels() {
            for &kind in PenaltyKind::ALL {
                let penalty = Some(Penalty::new(kind, 0.1));
                let direct = ExactSpec { kernel, estimator: V, penalty, learn_scale };
                let direct = ExactSolver::new(data, data.targets(), direct).unwrap().solve().unwrap();
                let here = QuadraticSpec { learn_scale, ..spec(Objective::Skds, kernel, V) };
                let found = fit(data, here, penalty);
                assert!(found.violation < 1e-8);
                assert!((found.loss - direct.loss).abs() < 1e-9, "{} {}", found.loss, direct.loss);
                assert!((found.penalty - direct.penalty).abs() < 1e-9);
                let away = furthest(&found.parameters, &direct.parameters);
                assert!(away < 1e-7, "{kernel:?} {kind} {learn_scale}: {away}");
            }
        }
    }
}

#[test]
fn given_functions_have_the_minimum_of_the_direct_solver() {
    let data = data(&[150, 120, 100], 3, 4);
    for (features, diffusion) in [("polynomial:2", "1"), ("polynomial:1", "1, self^2")] {
        let design = basis(features, diffusion, &data);
        let kernel = Kernel::TiltedRbf { bandwidth: 2.0 };
        for &kind in PenaltyKind::ALL {
            let penalty = Some(Penalty::new(kind, 0.1));
            let progress = Progress::default();
            let direct = ExactSpec { kernel, estimator: V, penalty, learn_scale: false };
            let direct =
                ExactSolver::prepare(None, &data, data.targets(), &design, None, direct, &progress).unwrap();
            let direct = direct.solve().unwrap();
            let here = spec(Objective::Skds, kernel, V);
            let mut here = Quadratic::new(None, &data, data.targets(), &design, here, &progress).unwrap();
            let found = here.fit(penalty, None, TIGHT, &progress).unwrap();
            assert!(found.violation < 1e-8, "{features} {kind}: {}", found.violation);
            assert!((found.loss - direct.loss).abs() < 1e-9, "{} {}", found.loss, direct.loss);
            assert!((found.penalty - direct.penalty).abs() < 1e-9);
            let away = furthest(&found.parameters, &direct.parameters);
            assert!(away < 1e-6, "{features} {diffusion} {kind}: {away}");
            let again = here.fit(penalty, Some(&found.parameters), TIGHT, &progress).unwrap();
            assert!(furthest(&found.parameters, &again.parameters) < 1e-7);
        }
        let kds = spec(KDS, kernel, V);
        let refused = Quadratic::new(None, &data, data.targets(), &design, kds, &Progress::default());
        assert!(refused.is_err_and(|error| error.to_string().contains("expected skds")));
    }
}

#[test]
fn scales_unknown_targets_and_known_edges() {
    let known = data(&[60, 50, 50], 4, 8);
    let unknown = known.clone().with_targets(Matrix::from_fn(3, 4, |e, _| e > 0)).unwrap();
    let everywhere = known.clone().with_targets(Matrix::from_fn(3, 4, |_, j| j == 1)).unwrap();
    let edges = Matrix::from_fn(4, 4, |j, i| match (j, i) {
        (0, 1) | (2, 3) => f64::INFINITY,
        (1, 0) | (3, 2) => 0.0,
        _ => 0.5 + 0.25 * (i + j) as f64,
    });
    for kernel in kernels() {
        for (data, learn_scale, multipliers, kind) in [
            (&known, true, None, PenaltyKind::Ingoing),
            (&unknown, false, None, PenaltyKind::Ingoing),
            (&unknown, true, None, PenaltyKind::Both),
            (&everywhere, true, None, PenaltyKind::Ingoing),
            (&known, false, Some(&edges), PenaltyKind::Ingoing),
            (&known, false, Some(&edges), PenaltyKind::Outgoing),
            (&unknown, true, Some(&edges), PenaltyKind::Both),
        ] {
            let spec = QuadraticSpec { learn_scale, multipliers, ..spec(KDS, kernel, V) };
            let penalty = Penalty::new(kind, 0.02);
            let found = fit(data, spec, Some(penalty));
            let what = format!("{kernel:?} {learn_scale} {kind} {}", multipliers.is_some());
            let missed = missed(data, &spec, penalty, &found);
            assert!(missed < 1e-7, "{what}: {missed}");
            if multipliers.is_some() {
                let weights = weights(&found);
                assert_eq!([weights[(0, 1)], weights[(2, 3)]], [0.0, 0.0], "{what}");
                assert!(weights[(1, 0)] != 0.0 && weights[(3, 2)] != 0.0, "{what}");
            }
            assert_eq!(found.parameters.log_scale.is_some(), learn_scale);
        }
    }
}

#[test]
fn noises_are_never_below_their_least() {
    // The second variable follows the first without noise of its own, and a shift makes up for nothing.
    let one = data(&[80], 1, 2).environment(0);
    let both = Matrix::from_fn(80, 2, |i, j| if j == 0 { one[(i, 0)] } else { -0.02 * one[(i, 0)].powi(3) });
    let data = Dataset::from_environments(vec![both]).unwrap();
    let spec = spec(KDS, Kernel::Rbf { bandwidth: 2.0 }, V);
    let free = Matrix::full(2, 2, 0.0);
    let found = fit(&data, QuadraticSpec { multipliers: Some(&free), ..spec }, None);
    assert!(found.violation < 1e-8, "{}", found.violation);
    let Noise::Diagonal { log_noise } = &found.parameters.noise else { unreachable!() };
    assert!(log_noise.iter().all(|noise| (2.0 * noise).exp() >= 0.999 * LEAST_NOISE), "{log_noise:?}");
}

#[test]
fn a_u_form_that_is_not_convex_is_replaced_by_the_v_form() {
    let small = data(&[8, 8], 4, 1);
    let kernel = Kernel::TiltedRbf { bandwidth: 6.0 };
    let penalty = Penalty::new(PenaltyKind::Ingoing, 0.05);
    let of = |estimator: Estimator, way: ProductMethod| {
        let mut fit =
            quadratic(&small, QuadraticSpec { products: Some(way), ..spec(KDS, kernel, estimator) });
        (fit.fell_back, fit.fit(Some(penalty), None, TIGHT, &Progress::default()).unwrap())
    };
    for way in [ProductMethod::ByGradients, ProductMethod::Formed] {
        let (fell_back, u) = of(Estimator::U, way);
        let (no, v) = of(V, way);
        assert!(fell_back && !no);
        assert_eq!(u, v);
    }
    // With enough samples and a narrow kernel it stays, where it can be looked at.
    let large = data(&[200, 150], 2, 1);
    let kernel = Kernel::Rbf { bandwidth: 0.7 };
    let formed = QuadraticSpec { products: Some(ProductMethod::Formed), ..spec(KDS, kernel, Estimator::U) };
    assert!(!quadratic(&large, formed).fell_back);
    let found = fit(&large, formed, Some(penalty));
    assert!(
        missed(&large, &QuadraticSpec { products: Some(ProductMethod::Formed), ..formed }, penalty, &found)
            < 1e-7
    );
    let linear = spec(KDS, kernel, Estimator::Linear);
    let refused =
        Quadratic::new(None, &large, large.targets(), &Design::Linear, linear, &Progress::default());
    assert!(refused.is_err());
}

#[test]
fn the_cheaper_way_is_chosen() {
    assert_eq!(cheaper_method(KDS, 430, 1), ProductMethod::ByGradients);
    assert_eq!(cheaper_method(KDS, 430, 20), ProductMethod::Formed);
    assert_eq!(cheaper_method(KDS, 10_000, 1000), ProductMethod::ByGradients);
    assert_eq!(cheaper_method(Objective::Skds, 430, 20), ProductMethod::ByGradients);
}

#[test]
fn the_same_bits_whatever_the_number_of_threads_and_a_wish_to_stop_is_heard() {
    let data = data(&[130, 100], 5, 9);
    let penalty = Some(Penalty::new(PenaltyKind::Both, 0.02));
    let spec = spec(KDS, Kernel::ImqPlus, V);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&data, spec, penalty))
    };
    assert_eq!(run(1), run(3));
    let mut ready = quadratic(&data, spec);
    let progress = Progress::default();
    progress.stop();
    assert!(matches!(ready.fit(penalty, None, TIGHT, &progress), Err(Error::Stopped)));
}
