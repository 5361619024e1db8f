//! Models that are made of given functions: what is recovered where the truth is known, and the way through all commands.

use crate::common::gpu_engine;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StudentT};
use skds::Matrix;
use skds::data::Dataset;
use skds::evaluate::predict;
use skds::fit::{ModelKind, Settings, fit};
use skds::kernel::Bandwidth;
use skds::model::{Basis, BasisDrift, Drift, Model, Noise};
use skds::sample::{Intervention, SampleSettings, Sampler, stationary_samples};
use std::path::Path;
use std::process::{Command, Output};

const TEMPERATURE: f64 = 0.3;

/// Two wells along x, and y drawn to x: b = −∇U with U = x⁴/4 − x²/2 + y²/2 − xy/2 − ⟨shift, (x, y)⟩ and a = 2 T. The
/// process is reversible and its law has the density exp(−U/T), which is drawn from by rejection.
fn wells(n: usize, shift: [f64; 2], rng: &mut ChaCha8Rng) -> Matrix<f64> {
    let energy = |x: f64, y: f64| {
        x.powi(4) / 4.0 - x * x / 2.0 + y * y / 2.0 - 0.5 * x * y - shift[0] * x - shift[1] * y
    };
    let grid = || (0..=80).map(|k| -4.0 + 0.1 * f64::from(k));
    let least = grid().flat_map(|x| grid().map(move |y| energy(x, y))).fold(f64::INFINITY, f64::min) - 0.01;
    let mut rows = Vec::with_capacity(2 * n);
    while rows.len() < 2 * n {
        let (x, y) = (rng.random_range(-4.0..4.0), rng.random_range(-4.0..4.0));
        if rng.random_range(0.0..1.0) < (-(energy(x, y) - least) / TEMPERATURE).exp() {
            rows.extend([x, y]);
        }
    }
    Matrix::from_rows(n, 2, rows)
}

fn environments(n: usize, shifts: &[[f64; 2]], seed: u64) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let samples = shifts.iter().map(|&shift| wells(n, shift, &mut rng)).collect();
    let targets = Matrix::from_fn(shifts.len(), 2, |e, j| shifts[e][j] != 0.0);
    Dataset::from_environments(samples).unwrap().with_targets(targets).unwrap()
}

fn training(n: usize) -> Dataset {
    environments(n, &[[0.0, 0.0], [0.5, 0.0], [-0.4, 0.0], [0.0, 0.6], [0.0, -0.5]], 1)
}

fn cubic() -> Settings {
    Settings {
        model: Some(ModelKind::Basis),
        features: Some("polynomial:3".parse().unwrap()),
        ..Settings::default()
    }
}

fn parts(model: &Model) -> (&Basis, &Matrix<f64>, &Matrix<f64>) {
    match (&model.parameters.drift, &model.parameters.noise) {
        (Drift::Basis(BasisDrift { basis, coefficients }), Noise::Basis { amounts }) => {
            (basis, coefficients, amounts)
        }
        _ => panic!("expected a model of given functions"),
    }
}

#[test]
fn two_wells_are_recovered_and_an_unseen_intervention_is_predicted() {
    let (model, stability) = fit(&training(1000), &cubic()).unwrap();
    assert!(stability.stable && stability.outside.unwrap() < 0.01, "{stability:?}");
    let (basis, coefficients, amounts) = parts(&model);
    // Features in order: x, y, x², xy, y², x³, x²y, xy², y³ of what is left when the means m are taken away, where the x³ of the
    // truth has a square: −(m + u)³ = −u³ − 3 m u² − 3 m² u − m³. Truth at the speed that the fit has.
    let m = training(1000).means(0)[0];
    for (j, truth) in [
        [1.0 - 3.0 * m * m, 0.5, -3.0 * m, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0],
        [0.5, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ]
    .iter()
    .enumerate()
    {
        let speed = amounts[(j, 0)] / (2.0 * TEMPERATURE);
        for (p, truth) in truth.iter().enumerate() {
            let found = coefficients[(j, p)] / speed;
            assert!((found - truth).abs() < 0.12, "{} on {j}: {found} {truth}", basis.feature(p));
        }
    }
    // Stronger interventions than any that was seen.
    let test = environments(1000, &[[0.8, 0.0], [0.0, 1.0]], 2);
    let settings = SampleSettings::default();
    let predictions = predict(&Sampler::cpu(), &model, &test, &settings, 0, &Default::default()).unwrap();
    // Two samples of 1000 of the same law differ by about 0.01 here; the linear model's prediction by 0.2.
    for prediction in &predictions {
        assert!(prediction.scores.unwrap().w2 < 0.03, "{prediction:?}");
    }
    let (linear, _) = fit(&training(1000), &Settings::default()).unwrap();
    let others = predict(&Sampler::cpu(), &linear, &test, &settings, 0, &Default::default()).unwrap();
    for (linear, cubic) in others.iter().zip(&predictions) {
        assert!(linear.scores.unwrap().w2 > 4.0 * cubic.scores.unwrap().w2, "{linear:?} {cubic:?}");
    }
    // A device for the pass over pairs changes the last digits only.
    let problem = skds::fit::PreparedFit::new(&training(300), &cubic()).unwrap();
    let done = skds::Progress::default();
    let (host, gpu) =
        (problem.solve(None, &done).unwrap(), problem.solve(Some(&gpu_engine()), &done).unwrap());
    let (host, gpu) = (parts(&host.model).1.as_slice(), parts(&gpu.model).1.as_slice());
    assert!(host.iter().zip(gpu).all(|(a, b)| (a - b).abs() < 0.02), "{host:?} {gpu:?}");
}

/// dX = −3 X dt + √(1 + X²) dB: reversible in one dimension, with the law of a Student variable with 7 degrees of
/// freedom over √7.
#[test]
fn noise_that_grows_with_the_state_is_recovered() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let student = StudentT::new(7.0).unwrap();
    let samples = Matrix::from_fn(4000, 1, |_, _| student.sample(&mut rng) / 7f64.sqrt());
    let data = Dataset::from_environments(vec![samples]).unwrap();
    let settings = |diffusion: &str| Settings {
        features: Some("polynomial:1".parse().unwrap()),
        diffusion: Some(diffusion.into()),
        // In standard deviations: 1 in the data's own units.
        bandwidth: Some(Bandwidth::Value(5f64.sqrt())),
        tune: Some(false),
        lambda: Some(0.0),
        ..cubic()
    };
    let (model, _) = fit(&data, &settings("1, self^2")).unwrap();
    let (_, coefficients, amounts) = parts(&model);
    let speed = amounts[(0, 0)];
    assert!((amounts[(0, 1)] / speed - 1.0).abs() < 0.25, "{amounts:?}");
    assert!((coefficients[(0, 0)] / speed + 3.0).abs() < 0.4, "{coefficients:?} {speed}");
    // One amount of the right form is known better, and its law has the tails of the data.
    let (model, _) = fit(&data, &settings("1 + self^2")).unwrap();
    let (_, coefficients, amounts) = parts(&model);
    assert!((coefficients[(0, 0)] / amounts[(0, 0)] + 3.0).abs() < 0.2, "{coefficients:?} {amounts:?}");
    let none = Intervention::none(1);
    let drawn = stationary_samples(&model, &none, 8000, &SampleSettings::default(), 0).unwrap();
    let variance = drawn.as_slice().iter().map(|x| x * x).sum::<f64>() / 8000.0;
    // ν / (ν − 2) / ν = 1/5.
    assert!((variance - 0.2).abs() < 0.02, "{variance}");
    // Noise that is the same everywhere has no such tails: amounts that are not wanted stay at 0.
    let gaussian = Matrix::from_fn(4000, 1, |_, _| crate::common::normal(&mut rng));
    let data = Dataset::from_environments(vec![gaussian]).unwrap();
    let (model, _) = fit(&data, &settings("1, self^2")).unwrap();
    let (_, _, amounts) = parts(&model);
    assert!((0.0..0.1).contains(&(amounts[(0, 1)] / amounts[(0, 0)])), "{amounts:?}");
}

#[test]
fn a_drift_that_leads_out_of_the_data_is_held_and_told() {
    // b = x + x² has no stationary law: the box holds it.
    let (mut model, _) =
        fit(&training(200), &Settings { features: Some("polynomial:2".parse().unwrap()), ..cubic() })
            .unwrap();
    let Drift::Basis(BasisDrift { coefficients, .. }) = &mut model.parameters.drift else { unreachable!() };
    coefficients.as_mut_slice().fill(0.0);
    (coefficients[(0, 0)], coefficients[(0, 2)], coefficients[(1, 1)]) = (5.0, 5.0, -1.0);
    let none = Intervention::none(2);
    let samples = stationary_samples(&model, &none, 500, &SampleSettings::default(), 0).unwrap();
    let (basis, ..) = parts(&model);
    let outside = (0..500).filter(|&i| samples[(i, 0)] > basis.high[0]).count();
    assert!(outside > 100, "{outside}");
    assert!(samples.as_slice().iter().all(|x| x.abs() < 50.0));
}

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn passes(args: &[&str]) -> String {
    let output = skds(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_basis_model_goes_through_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&folder.path().join(name));
    let data = training(300).with_names(vec!["gene a".into(), "y".into()]).unwrap();
    data.write(Path::new(&at("train.npz"))).unwrap();
    std::fs::write(
        at("features.txt"),
        "# a cubic in a, and both linear\n{gene a}\n{gene a}^3\ny # like this\n",
    )
    .unwrap();
    let (train, model) = (at("train.npz"), at("model.safetensors"));
    let chosen = ["fit", &train, "-o", &model, "--model", "basis", "--features", &at("features.txt")];
    let rest = ["--diffusion", "1, self^2", "--bootstrap", "20"];
    let report = passes(&[&chosen[..], &rest].concat());
    for piece in ["SKDS basis model", "Chosen among 60 settings by the loss on 4 held-out environments"] {
        assert!(report.contains(piece), "{report}");
    }
    assert!(folder.path().join("model.tuning.svg").exists());
    let first = std::fs::read(&model).unwrap();
    passes(&[&chosen[..], &rest].concat());
    assert_eq!(std::fs::read(&model).unwrap(), first, "the same bytes twice");

    let read = Model::read(Path::new(&model)).unwrap();
    assert_eq!(read.settings["features"], at("features.txt").as_str());
    let (basis, coefficients, _) = parts(&read);
    assert_eq!((basis.features(), basis.feature(1)), (3, "{gene a}^3"));
    assert!(coefficients[(0, 1)] < 0.0 && read.intervals.is_some());
    let again = at("again.safetensors");
    read.save(Path::new(&again)).unwrap();
    assert_eq!(std::fs::read(again).unwrap(), first);

    let graph = passes(&["graph", &model]);
    assert!(graph.contains("basis model, 2 variables, 2 effects, standard units"), "{graph}");
    assert!(graph.contains("gene a  y        +") && graph.contains("y       gene a   +"), "{graph}");
    passes(&["sample", &model, "-n", "200", "--shift", "gene a=0.5", "-o", &at("drawn.npz")]);
    let drawn = Dataset::read(Path::new(&at("drawn.npz"))).unwrap();
    assert!(drawn.means(0)[0] > data.means(0)[0]);
    let test = environments(200, &[[0.4, 0.0]], 9).with_names(data.names().to_vec()).unwrap();
    test.write(Path::new(&at("test.npz"))).unwrap();
    let scores = passes(&["evaluate", &model, &at("test.npz"), "--json"]);
    let scores: serde_json::Value = serde_json::from_str(scores.lines().last().unwrap()).unwrap();
    assert!(scores["median"]["w2"].as_f64().unwrap() < 0.2, "{scores}");
    let convexity = passes(&["convexity", &train, "--features", "rbf:2", "--diffusion", "1, self^2"]);
    assert!(convexity.contains("SKDS of the model rbf:2 of 2 variables"), "{convexity}");
}

#[test]
fn wrong_functions_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&folder.path().join(name));
    training(40).write(Path::new(&at("train.npz"))).unwrap();
    std::fs::write(at("empty.txt"), "").unwrap();
    std::fs::write(at("wrong.txt"), "x0 +* x1").unwrap();
    std::fs::write(at("other.txt"), "x0\nz^2").unwrap();
    std::fs::write(at("infinite.txt"), "log(x0)").unwrap();
    let (train, out) = (at("train.npz"), at("model.safetensors"));
    let (empty, wrong, other) = (at("empty.txt"), at("wrong.txt"), at("other.txt"));
    let infinite = at("infinite.txt");
    let cases: [(&[&str], &str); 14] = [
        (&["--features", "no-such-file"], "cannot read no-such-file"),
        (&["--features", &empty], "has no features, expected one expression per line"),
        (&["--features", &wrong], "'x0 +* x1': found '*' at place 5, expected a number"),
        (&["--features", &other], "'z^2': unknown variable 'z', expected one of x0, x1"),
        (&["--features", &infinite], "'log(x0)' is not finite everywhere"),
        (&["--features", "polynomial:x"], "expected polynomial:K with a degree K from 1 to 9"),
        (&["--features", "rbf:0"], "expected rbf:K with a number K of bumps from 1 to 100"),
        (&["--diffusion", "self"], "expected at least 0"),
        (&["--diffusion", "1,"], "found the end"),
        (&["--diffusion", "1, self^2", "--learn-scale"], "2 functions, expected one"),
        (
            &["--solver", "adam"],
            "the solver adam is given with the model basis, expected skds over all pairs",
        ),
        (&["--objective", "kds"], "the objective kds is given with the model basis, expected skds"),
        (&["--estimator", "linear"], "the estimator linear is given with the model basis"),
        (&["--model", "linear", "--features", "rbf:2"], "expected the model basis"),
    ];
    for (args, piece) in cases {
        let model: &[&str] = if args.contains(&"--model") { &[] } else { &["--model", "basis"] };
        let output = skds(&[&["fit", &train, "-o", &out], model, args].concat());
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(sentence.contains(piece), "{args:?}: {sentence}");
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(!Path::new(&out).exists());
    }
    // Engines that evaluate losses do not know it.
    passes(&["fit", &train, "-o", &out, "--model", "basis"]);
    let output = skds(&["loss", &train, "--params", &out]);
    let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(sentence.contains("the drift basis, which has no loss"), "{sentence}");
    assert_eq!(output.status.code(), Some(2));
}
