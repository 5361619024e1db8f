use super::*;
use crate::data::{Dataset, Standardization};
use crate::model::{Activation, Drift, EquationsDrift, LawKind, MlpDrift, Model, Noise, Parameters};
use crate::numeric::matmul::product;
use crate::sample::{Intervention, Method, SampleSettings, Sampler};
use crate::{Matrix, Progress, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// x → y → z, in units of its own.
fn linear() -> Model {
    let weights = vec![-1.0, 0.0, 0.0, 0.8, -1.0, 0.2, 0.0, -0.5, -1.0];
    Model::new(Parameters {
        drift: Drift::linear(Matrix::from_rows(3, 3, weights)),
        biases: vec![0.2, -0.4, 1.0],
        noise: Noise::Diagonal { log_noise: vec![0.1, -0.3, 0.2] },
        shift: None,
        log_scale: None,
    })
}

fn network() -> Model {
    let entry = |i: usize, j: usize| ((3 * i + 5 * j) % 7) as f64 / 7.0 - 0.4;
    Model::new(Parameters {
        drift: Drift::Mlp(MlpDrift {
            activation: Activation::Tanh,
            hidden_weights: Matrix::from_fn(6, 3, entry),
            hidden_biases: Matrix::from_fn(3, 2, entry),
            output_weights: Matrix::from_fn(3, 2, |i, j| 1.5 * entry(i, j)),
        }),
        biases: vec![0.2, 0.0, -0.3],
        noise: Noise::Diagonal { log_noise: vec![-0.5; 3] },
        shift: None,
        log_scale: None,
    })
}

/// Rows that no Gaussian has, in an environment that comes second.
fn data() -> Dataset {
    let value = |i: usize, j: usize| ((i * (j + 3)) as f64).sin().powi(3) + j as f64;
    let environments = vec![Matrix::from_fn(40, 3, value), Matrix::from_fn(60, 3, value)];
    let targets = Matrix::from_fn(2, 3, |e, j| e == 0 && j == 1);
    Dataset::from_environments(environments).unwrap().with_targets(targets).unwrap()
}

fn treatment(model: &Model, shift: &[(&str, f64)], scale: &[(&str, f64)], set: &[(&str, f64)]) -> Treatment {
    let named = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
        pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    };
    Treatment::named(model, None, &named(shift), &named(scale), &named(set)).unwrap()
}

fn predicted(model: &Model, data: &Dataset, treatment: &Treatment, method: Method) -> Result<Matrix<f64>> {
    let settings = SampleSettings { method, ..SampleSettings::default() };
    let origin = Origin::of(model, data)?;
    anchored(&Sampler::cpu(), model, &origin, treatment, &settings, 1, &Progress::default())
}

fn mean(rows: &Matrix<f64>, j: usize) -> f64 {
    (0..rows.rows()).map(|i| rows[(i, j)]).sum::<f64>() / rows.rows() as f64
}

fn largest_difference(a: &Matrix<f64>, b: &Matrix<f64>) -> f64 {
    assert_eq!((a.rows(), a.cols()), (b.rows(), b.cols()));
    a.as_slice().iter().zip(b.as_slice()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn times(a: &Matrix<f64>, b: &Matrix<f64>) -> Matrix<f64> {
    let mut result = Matrix::full(a.rows(), b.cols(), 0.0);
    product(result.view_mut(), a.view(), b.view());
    result
}

#[test]
fn a_shift_of_a_linear_model_is_a_translation() {
    let model = linear();
    let observed = data().environment(1);
    let treatment = treatment(&model, &[("x0", 2.0)], &[], &[]);
    let moved = predicted(&model, &data(), &treatment, Method::Auto).unwrap();
    // −W⁻¹ e₀ by hand: x moves by 1, y by (0.8 + 0.2 z), z by −0.5 y.
    let y = 0.8 / 1.1;
    let expected = [2.0, 2.0 * y, -y];
    for i in 0..observed.rows() {
        for j in 0..3 {
            assert!((moved[(i, j)] - observed[(i, j)] - expected[j]).abs() < 1e-12, "{i} {j}");
        }
    }
    // Simulations with one seed have one noise, so they find the same.
    let simulated = predicted(&model, &data(), &treatment, Method::Euler).unwrap();
    assert!(largest_difference(&simulated, &moved) < 1e-4);
    // Nothing done is nothing moved, to the bit.
    let nothing = treatment_of_nothing(&model);
    assert_eq!(predicted(&model, &data(), &nothing, Method::Auto).unwrap(), observed);
    assert_eq!(predicted(&network(), &data(), &nothing, Method::Auto).unwrap(), observed);
}

fn treatment_of_nothing(model: &Model) -> Treatment {
    treatment(model, &[], &[], &[])
}

#[test]
fn the_optimal_map_brings_one_law_to_the_other() {
    let model = linear();
    let scaled = treatment(&model, &[("x1", -1.0)], &[("x0", 3.0), ("x2", 0.5)], &[]).intervention;
    let none = Intervention::none(3);
    let laws = laws_of(
        &Sampler::cpu(),
        &model,
        &[&none, &scaled],
        &SampleSettings::default(),
        0,
        &Progress::default(),
    )
    .unwrap();
    let [from, to] = &laws.into_iter().map(Result::unwrap).collect::<Vec<_>>()[..] else { panic!() };
    let map = TransportMap::between(from, to).unwrap();
    let a = &map.deviations.as_ref().unwrap().matrix;
    let transposed = Matrix::from_fn(3, 3, |i, j| a[(j, i)]);
    // Symmetric and positive definite: no other such map costs less.
    assert_eq!(*a, transposed);
    let eigenvalues = crate::numeric::dense::symmetric_eigenvalues(a.view()).unwrap();
    assert!(eigenvalues[0] > 0.0);
    let carried = times(&times(a, &from.covariance), &transposed);
    assert!(largest_difference(&carried, &to.covariance) < 1e-12);
    let at = map.apply(&Matrix::from_rows(1, 3, from.mean.clone()));
    assert!((0..3).all(|j| (at[(0, j)] - to.mean[j]).abs() < 1e-12));
    // The covariance has changed where it should.
    assert!(to.covariance[(0, 0)] / from.covariance[(0, 0)] > 8.9);
}

#[test]
fn directions_without_variance_are_left_alone() {
    let law = |mean: f64, last: f64| Law {
        mean: vec![mean; 3],
        covariance: Arc::new(Matrix::from_fn(3, 3, |i, j| match (i, j) {
            (0, 0) => last,
            (1, 1) => 1.0,
            _ => 0.0,
        })),
    };
    let map = TransportMap::between(&law(0.0, 1.0), &law(1.0, 4.0)).unwrap();
    let moved = map.apply(&Matrix::from_rows(1, 3, vec![1.0, 1.0, 1.0]));
    for (found, expected) in moved.row(0).iter().zip([3.0, 2.0, 2.0]) {
        assert!((found - expected).abs() < 1e-6, "{moved:?}");
    }
}

#[test]
fn a_scaled_noise_changes_deviations() {
    let model = linear();
    let observed = data().environment(1);
    let moved =
        predicted(&model, &data(), &treatment(&model, &[], &[("x0", 2.0)], &[]), Method::Auto).unwrap();
    let deviation = |rows: &Matrix<f64>, j: usize| {
        let mean = mean(rows, j);
        (0..rows.rows()).map(|i| (rows[(i, j)] - mean).powi(2)).sum::<f64>().sqrt()
    };
    assert!(deviation(&moved, 0) > 1.5 * deviation(&observed, 0));
    assert!(deviation(&moved, 2) < 1.2 * deviation(&observed, 2));
}

#[test]
fn set_means_are_reached_with_and_without_data() {
    for (model, method) in [(linear(), Method::Auto), (linear(), Method::Euler), (network(), Method::Auto)] {
        for set in [&[("x1", 2.5)][..], &[("x0", -1.0), ("x2", 3.0)][..]] {
            // On top of something else.
            let treatment = treatment(&model, &[], &[("x0", 1.5)], set);
            let moved = predicted(&model, &data(), &treatment, method).unwrap();
            for (name, goal) in set {
                let found = mean(&moved, model.variable(name).unwrap());
                assert!((found - goal).abs() < 1e-9, "{name} {found} {method:?}");
            }
            let settings = SampleSettings { method, ..SampleSettings::default() };
            let (sampler, progress) = (Sampler::cpu(), Progress::default());
            let found = interventions_for(
                &sampler,
                &model,
                std::slice::from_ref(&treatment),
                &settings,
                1,
                &progress,
            )
            .unwrap()
            .remove(0)
            .unwrap();
            assert_eq!(found.log_scale, treatment.intervention.log_scale);
            let law =
                laws_of(&sampler, &model, &[&found], &settings, 1, &progress).unwrap().remove(0).unwrap();
            for (name, goal) in set {
                let mean = law.mean[model.variable(name).unwrap()];
                let close = if method == Method::Auto && model == linear() { 1e-9 } else { 0.1 };
                assert!((mean - goal).abs() < close, "{name} {mean} {method:?}");
            }
        }
    }
}

#[test]
fn a_small_change_is_not_lost_in_the_noise_of_simulations() {
    // 512 samples tell a mean to about 0.04 deviations; the change is a quarter of that.
    let model = linear();
    let goal = mean(&data().environment(1), 0) + 0.01;
    let treatment = treatment(&model, &[], &[], &[("x0", goal)]);
    let exact = predicted(&model, &data(), &treatment, Method::Auto).unwrap();
    let simulated = predicted(&model, &data(), &treatment, Method::Euler).unwrap();
    assert!(largest_difference(&exact, &simulated) < 2e-3);
}

#[test]
fn units_do_not_matter() {
    let units = Standardization { mean: vec![40.0, -0.3, 7.0], scale: vec![3.0, 0.02, 500.0] };
    let standard = linear();
    let outside = Model {
        parameters: standard.parameters.in_units_of(&units, None).unwrap(),
        reference: Some(units.clone()),
        ..standard.clone()
    };
    let inside = Model { standardization: Some(units.clone()), ..standard.clone() };
    let mut own = data().samples().clone();
    units.undo(&mut own);
    let part = |e: usize| Matrix::from_fn(data().rows(e).len(), 3, |i, j| own[(data().rows(e).start + i, j)]);
    let own = Dataset::from_environments(vec![part(0), part(1)]).unwrap();
    let own = own.with_targets(data().targets().clone()).unwrap();
    let scales = [("x0", 2.0)];
    let expected = predicted(
        &standard,
        &data(),
        &treatment(&standard, &[("x1", 1.0)], &scales, &[("x2", 2.0)]),
        Method::Auto,
    )
    .unwrap();
    let goal = units.mean[2] + 2.0 * units.scale[2];
    for (model, shift) in [(outside, units.scale[1]), (inside, 1.0)] {
        let treatment = treatment(&model, &[("x1", shift)], &scales, &[("x2", goal)]);
        let mut found = predicted(&model, &own, &treatment, Method::Auto).unwrap();
        units.apply_to(&mut found);
        assert!(largest_difference(&found, &expected) < 1e-9);
    }
}

#[test]
fn rows_are_drawn_without_replacement_and_in_order() {
    let origin = Origin::of(&linear(), &data()).unwrap();
    assert_eq!((origin.environment, origin.rows.rows()), (1, 60));
    let drawn = origin.clone().draw(Some(20), 3).unwrap();
    let places: Vec<usize> =
        (0..20).map(|i| (0..60).find(|&k| origin.rows.row(k) == drawn.rows.row(i)).unwrap()).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
    assert_ne!(drawn.rows, origin.clone().draw(Some(20), 4).unwrap().rows);
    assert_eq!(drawn.means, origin.means);
    let sentence = origin.draw(Some(61), 3).unwrap_err().to_string();
    assert_eq!(
        sentence,
        "asked for 61 samples from 60 rows, expected at most the environment's number of rows"
    );
}

#[test]
fn data_that_does_not_suit_is_refused() {
    let model = linear();
    let all = data().with_targets(Matrix::full(2, 3, true)).unwrap();
    let sentence = Origin::of(&model, &all).unwrap_err().to_string();
    assert!(sentence.contains("all 2 environments") && sentence.contains("expected one without"));
    let fewer = Dataset::from_environments(vec![Matrix::full(4, 2, 1.0)]).unwrap();
    assert!(Origin::of(&model, &fewer).unwrap_err().to_string().contains("2 variables, expected 3"));
    let one = BTreeMap::from([("x0".to_owned(), 1.0)]);
    let none = BTreeMap::new();
    let sentence = Treatment::named(&model, None, &one, &none, &one).unwrap_err().to_string();
    assert!(sentence.contains("both a shift and a mean for 'x0'"), "{sentence}");
}

#[test]
fn shifts_of_structural_equations_by_networks_reproduce_means() {
    // x = ½ + ε, y = 0.7 max(x, 0) + 2 e.
    let drift = EquationsDrift {
        slope: 0.0,
        first_weights: Matrix::from_rows(2, 2, vec![0.0, 1.0, 1.0, 0.0]),
        first_biases: Matrix::full(2, 1, 0.0),
        inner_weights: Matrix::full(0, 1, 0.0),
        inner_biases: Matrix::full(0, 1, 0.0),
        mean_weights: Matrix::from_rows(2, 1, vec![0.0, 0.7]),
        scale_weights: Matrix::full(2, 1, 0.0),
    };
    let noise = Noise::Diagonal { log_noise: vec![0.0, 2f64.ln()] };
    let parameters =
        Parameters { drift: drift.into(), biases: vec![0.5, 0.0], noise, shift: None, log_scale: None };
    let model = Model { law: LawKind::Structural, ..Model::new(parameters) };
    let wanted = TargetMeans { targets: vec![1], means: vec![4.0] };
    let (sampler, settings, progress) = (Sampler::cpu(), SampleSettings::default(), Progress::default());
    let found = match_means(&sampler, &model, &[wanted], &settings, 3, &progress).unwrap().remove(0).unwrap();
    // E max(x, 0) for x ~ N(½, 1) is ½ Φ(½) + φ(½).
    let positive = 0.5 * 0.691_462 + 0.352_065;
    assert!((found.shift[1] - (4.0 - 0.7 * positive)).abs() < 0.3 && found.shift[0] == 0.0, "{found:?}");
}

#[test]
fn a_model_without_a_law_is_an_error_of_every_treatment() {
    let mut model = linear();
    let weights = model.parameters.drift.linear_weights_mut().unwrap();
    weights[(0, 0)] = 0.5;
    let error = predicted(&model, &data(), &treatment_of_nothing(&model), Method::Auto).unwrap_err();
    assert!(
        matches!(error, crate::Error::NonFinite(_)) && error.to_string().contains("not stable"),
        "{error}"
    );
}
