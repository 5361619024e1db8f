//! Tests of IGSP: its parts here, the whole against the reference packages in `package.rs`.

mod equations;
mod package;

use super::special::{f_cdf, two_sided_normal};
use super::*;
use crate::Matrix;
use rand::RngExt;

fn targets_of(d: usize, lists: &[Vec<usize>]) -> Matrix<bool> {
    Matrix::from_fn(lists.len(), d, |e, j| lists[e].contains(&j))
}

/// Rows of x = B x + ε in the order of the variables: variable j depends on the ones before it. Targets are shifted.
fn chain_data(d: usize, lists: &[Vec<usize>], rows: usize, effect: f64, seed: u64) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let environments = lists.iter().map(|list| {
        let mut samples = Matrix::full(rows, d, 0.0);
        for row in 0..rows {
            let x = samples.row_mut(row);
            for j in 0..d {
                // A sum of uniform numbers is close to normal, with variance 1.
                let noise: f64 = (0..12).map(|_| rng.random_range(-0.5..0.5)).sum();
                let shift = if list.contains(&j) { 2.0 } else { 0.0 };
                x[j] = noise + shift + if j > 0 { effect * x[j - 1] } else { 0.0 };
            }
        }
        samples
    });
    Dataset::from_environments(environments.collect()).unwrap().with_targets(targets_of(d, lists)).unwrap()
}

#[test]
fn tail_probabilities_agree_with_scipy() {
    let f = [
        (0.3, 1.0, 999.0, 0.41599522922770654),
        (3.84, 1.0, 1998.0, 0.949817632819316),
        (1.07, 999.0, 999.0, 0.8574364828096144),
        (0.5, 3.0, 7.0, 0.3059636124311863),
        (2.5, 10.0, 4.0, 0.8044668191481348),
        (1.01, 99999.0, 120000.0, 0.949877058655814),
        (1e-6, 1.0, 50.0, 0.000793905224498339),
        (30.0, 2.0, 3.0, 0.9896086718935242),
    ];
    for (x, a, b, expected) in f {
        let found = f_cdf(x, a, b);
        assert!(
            (found - expected).abs() < 1e-12 * (1.0 + 1e-4 * (a + b)),
            "F({x}; {a}, {b}) = {found}, expected {expected}"
        );
    }
    let normal = [
        (0.0, 1.0),
        (1e-3, 0.9992021155721779),
        (0.5, 0.6170750774519738),
        (1.0, 0.31731050786291415),
        (1.99, 0.04659093550042364),
        (2.01, 0.04443118885886295),
        (3.0, 0.0026997960632601866),
        (6.0, 1.973175290075389e-09),
        (20.0, 5.507248237212311e-89),
    ];
    for (z, expected) in normal {
        let found = two_sided_normal(z);
        assert!((found - expected).abs() < 1e-13 * (1e-3 + expected), "{z}: {found}, expected {expected}");
    }
    assert_eq!(
        (f_cdf(f64::INFINITY, 3.0, 4.0), f_cdf(0.0, 3.0, 4.0), two_sided_normal(f64::INFINITY)),
        (1.0, 0.0, 0.0)
    );
    assert!(f_cdf(f64::NAN, 3.0, 4.0).is_nan());
}

#[test]
fn a_set_holds_what_was_put_in() {
    let set = Nodes::of([3, 64, 200, 255]);
    assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 200, 255]);
    assert_eq!((set.len(), set.contains(64), set.contains(65)), (4, true, false));
    assert_eq!(set.without(200), Nodes::of([255, 3, 64]));
    assert_eq!(set.without(5), set);
}

#[test]
fn a_generalised_inverse_solves_dependent_systems() {
    // Columns 0 and 2 are the same.
    let a = Matrix::from_rows(3, 3, vec![2.0, 0.5, 2.0, 0.5, 1.0, 0.5, 2.0, 0.5, 2.0]);
    let k = inverse::generalised_inverse(&a);
    let product = |x: &Matrix<f64>, y: &Matrix<f64>| {
        Matrix::from_fn(3, 3, |i, j| (0..3).map(|l| x[(i, l)] * y[(l, j)]).sum::<f64>())
    };
    let back = product(&product(&a, &k), &a);
    assert!(back.as_slice().iter().zip(a.as_slice()).all(|(x, y)| (x - y).abs() < 1e-14), "{back:?}");
    assert_eq!(k.row(2), [0.0; 3]);
}

/// With every variable shifted in some environment the direction of a chain is known.
#[test]
fn a_chain_is_found_with_its_effects() {
    let d = 6;
    let lists: Vec<Vec<usize>> = (0..=d).map(|e| if e == 0 { vec![] } else { vec![e - 1] }).collect();
    let data = chain_data(d, &lists, 2000, 0.8, 4);
    let settings = IgspSettings { alpha: 1e-4, ..IgspSettings::default() };
    let found = fit(&data, &settings, 1, &Progress::default()).unwrap();
    for j in 0..d {
        for i in 0..d {
            let expected = if j == i + 1 { 0.8 } else { 0.0 };
            assert!((found.effects[(j, i)] - expected).abs() < 0.03, "{i} on {j}: {}", found.effects[(j, i)]);
            assert_eq!(found.effects[(j, i)] == 0.0, expected == 0.0, "{i} on {j}");
        }
        assert!((found.variances[j] - 1.0).abs() < 0.06);
        assert_eq!(found.intercepts[j], 0.0);
    }
}

#[test]
fn a_fit_counts_stops_and_repeats() {
    let data = chain_data(12, &[vec![], vec![2], vec![5]], 100, 0.9, 2);
    let (settings, progress) = (IgspSettings { alpha: 0.2, ..IgspSettings::default() }, Progress::default());
    let found = fit(&data, &settings, 3, &progress).unwrap();
    assert_eq!(progress.done(), settings.work(&data));
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    for threads in [1, 2] {
        assert_eq!(found, pool(threads).install(|| fit(&data, &settings, 3, &Progress::default())).unwrap());
    }
    let other = (4..30).any(|seed| fit(&data, &settings, seed, &Progress::default()).unwrap() != found);
    assert!(other, "no other seed finds another graph");
    let stopped = Progress::default();
    stopped.stop();
    assert!(matches!(fit(&data, &settings, 3, &stopped), Err(Error::Stopped)));
}

#[test]
fn odd_data_give_equations_or_a_sentence() {
    let fits = |data: &Dataset| fit(data, &IgspSettings::default(), 0, &Progress::default());
    let constant = Matrix::from_fn(6, 5, |i, j| match j {
        2 => 0.0,
        4 => ((i * i) % 5) as f64,
        _ => ((i * i + j) % 5) as f64,
    });
    for lists in
        [vec![vec![]; 3], vec![vec![], vec![0, 1, 2, 3, 4], vec![2]], vec![vec![], vec![0, 3], vec![0]]]
    {
        let data = Dataset::from_environments(vec![constant.clone(); 3]).unwrap();
        let found = fits(&data.with_targets(targets_of(5, &lists)).unwrap()).unwrap();
        assert!(found.variances.iter().all(|v| *v > 0.0), "{lists:?}");
    }
    for (d, rows) in [(1, 2), (2, 2), (2, 50), (12, 2), (12, 9)] {
        fits(&chain_data(d, &[vec![], vec![0]], rows, 0.5, 8)).unwrap();
        fits(&chain_data(d, &[vec![]], rows, 0.5, 8)).unwrap();
    }
    // No environment to test independence in.
    let error = fits(&chain_data(3, &[vec![1], vec![0]], 20, 0.5, 8)).unwrap_err().to_string();
    assert!(error.contains("expected one without targets"), "{error}");
    let wide = fits(&chain_data(257, &[vec![]], 2, 0.5, 8)).unwrap_err().to_string();
    assert!(wide.contains("is 257, expected at most 256"), "{wide}");
    let huge = Dataset::from_environments(vec![constant.map(|x| 1e200 * x); 2]).unwrap();
    let huge = huge.with_targets(targets_of(5, &[vec![], vec![1]])).unwrap();
    assert!(matches!(fits(&huge), Err(Error::NonFinite(_))));
}

/// Copies of a variable leave nothing of each other.
#[test]
fn copies_depend_on_each_other_and_on_nothing_given_one_another() {
    let samples =
        Matrix::from_fn(40, 3, |i, j| if j < 2 { (i % 7) as f64 } else { ((i % 7) + i % 2) as f64 });
    let moments = Moments::of((0..40).map(|i| samples.row(i)), 3);
    let mut tests = Independence::new(&moments.covariance(), 40, 0.01);
    assert!(!tests.holds(0, 1, Nodes::default()));
    assert!(!tests.holds(0, 2, Nodes::default()));
    assert!(tests.holds(0, 2, Nodes::of([1])));
    assert!(tests.holds(0, 1, Nodes::of([2])) != tests.holds(0, 2, Nodes::of([1])));
}

#[test]
fn settings_out_of_bounds_are_named() {
    let default = IgspSettings::default();
    let cases = [
        (IgspSettings { alpha: 0.0, ..default.clone() }, "the alpha is 0"),
        (IgspSettings { alpha: f64::NAN, ..default.clone() }, "the alpha is NaN"),
        (IgspSettings { invariance_alpha: Some(1.0), ..default.clone() }, "the invariance_alpha is 1"),
        (IgspSettings { runs: 0, ..default.clone() }, "the number of runs is 0"),
        (IgspSettings { depth: 100_000, ..default.clone() }, "the depth is 100000"),
        (IgspSettings { graphs: 0, ..default.clone() }, "the number of graphs is 0"),
    ];
    for (settings, expected) in cases {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.contains("expected"), "{error}");
    }
    default.check().unwrap();
    assert_eq!(serde_json::from_str::<IgspSettings>("{}").unwrap(), default);
    assert!(serde_json::from_str::<IgspSettings>("{\"lambda\": 1}").is_err());
}
