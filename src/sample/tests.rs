use super::*;
use crate::data::Standardization;
use crate::model::{Activation, ChainSpace, Drift, MlpDrift, Noise, Parameters};
use crate::numeric::dense::Lu;
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many standard errors an average may be off.
const ERRORS: f64 = 6.0;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn random(rows: usize, cols: usize, seed: u64) -> Matrix<f64> {
    let mut rng = rng(seed);
    Matrix::from_fn(rows, cols, |_, _| rng.random_range(-1.0..1.0))
}

/// Stable with room to spare: random off the diagonal, far enough left on it.
fn stable(d: usize, seed: u64) -> Matrix<f64> {
    let mut weights = random(d, d, seed);
    (0..d).for_each(|i| weights[(i, i)] = -1.0 - (d as f64).sqrt());
    weights
}

fn diffusion(d: usize, seed: u64) -> Matrix<f64> {
    let noise = random(d, d, seed);
    Matrix::from_fn(d, d, |i, j| (0..d).map(|k| noise[(i, k)] * noise[(j, k)]).sum())
}

fn linear(weights: Matrix<f64>, biases: Vec<f64>, log_noise: Vec<f64>) -> Model {
    let (drift, noise) = (Drift::linear(weights), Noise::Diagonal { log_noise });
    Model::new(Parameters { drift, biases, noise, shift: None, log_scale: None })
}

fn mlp(d: usize, h: usize, seed: u64) -> Model {
    Model::new(Parameters {
        drift: Drift::Mlp(MlpDrift {
            activation: Activation::Sigmoid,
            hidden_weights: random(d * h, d, seed),
            hidden_biases: random(d, h, seed + 1),
            output_weights: random(d, h, seed + 2),
        }),
        biases: vec![0.1; d],
        noise: Noise::Diagonal { log_noise: vec![-0.5; d] },
        shift: None,
        log_scale: None,
    })
}

fn by_euler(dt: f64, burn_in: usize, thin: usize) -> SampleSettings {
    let euler = EulerSettings { dt, burn_in, thin, chains: None };
    SampleSettings { method: Method::Euler, euler, nonnegative: false }
}

fn sample(model: &Model, n: usize, settings: &SampleSettings) -> Result<Matrix<f64>> {
    stationary_samples(model, &Intervention::none(model.dim()), n, settings, 7)
}

fn residual(w: &Matrix<f64>, a: &Matrix<f64>, sigma: &Matrix<f64>) -> f64 {
    let d = w.rows();
    let entry = |i: usize, j: usize| {
        a[(i, j)] + (0..d).map(|k| w[(i, k)] * sigma[(k, j)] + sigma[(i, k)] * w[(j, k)]).sum::<f64>()
    };
    let size = |m: &Matrix<f64>| m.as_slice().iter().map(|v| v * v).sum::<f64>().sqrt();
    size(&Matrix::from_fn(d, d, entry)) / (2.0 * size(w) * size(sigma) + size(a))
}

/// Checks mean and covariance of independent rows against a law.
#[track_caller]
fn assert_law(samples: &Matrix<f64>, mean: &[f64], covariance: &Matrix<f64>) {
    let (n, d) = (samples.rows(), samples.cols());
    let average = |f: &dyn Fn(&[f64]) -> f64| (0..n).map(|i| f(samples.row(i))).sum::<f64>() / n as f64;
    for i in 0..d {
        let error = (covariance[(i, i)] / n as f64).sqrt();
        let found = average(&|x| x[i]);
        assert!((found - mean[i]).abs() <= ERRORS * error, "mean {i}: {found}, expected {}", mean[i]);
        for j in 0..d {
            let expected = covariance[(i, j)];
            let error = ((covariance[(i, i)] * covariance[(j, j)] + expected * expected) / n as f64).sqrt();
            let found = average(&|x| (x[i] - mean[i]) * (x[j] - mean[j]));
            assert!((found - expected).abs() <= ERRORS * error, "covariance {i} {j}: {found}, {expected}");
        }
    }
}

#[test]
fn one_variable_has_a_closed_form() {
    let one = |value| Matrix::full(1, 1, value);
    let law = Gaussian::stationary(&one(-4.0), &[6.0], &one(2.0)).unwrap();
    assert!((law.mean[0] - 1.5).abs() < 1e-14);
    assert!((law.covariance[(0, 0)] - 0.25).abs() < 1e-14);
}

#[test]
fn the_covariance_is_that_of_the_kronecker_system() {
    let d = 4;
    let (w, a, b) = (stable(d, 1), diffusion(d, 2), [0.3, -1.0, 2.0, 0.0]);
    let law = Gaussian::stationary(&w, &b, &a).unwrap();
    // (I ⊗ W + W ⊗ I) vec Σ = −vec a.
    let same = |i, j| if i == j { 1.0 } else { 0.0 };
    let system = Mat::from_fn(d * d, d * d, |r, c| {
        let ((i, j), (k, l)) = ((r / d, r % d), (c / d, c % d));
        w[(i, k)] * same(j, l) + same(i, k) * w[(j, l)]
    });
    let mut sigma = Mat::from_fn(d * d, 1, |r, _| -a[(r / d, r % d)]);
    Lu::of(system.as_ref()).solve_in_place(sigma.as_mut());
    for i in 0..d {
        let drift: f64 = b[i] + (0..d).map(|j| w[(i, j)] * law.mean[j]).sum::<f64>();
        assert!(drift.abs() < 1e-13);
        for j in 0..d {
            assert!((law.covariance[(i, j)] - sigma[(i * d + j, 0)]).abs() < 1e-13);
        }
    }
}

#[test]
fn lyapunov_residuals_vanish_for_every_kind_of_weights() {
    for d in [2, 7, 60, 150] {
        let (w, a) = (stable(d, d as u64), diffusion(d, 5));
        let law = Gaussian::stationary(&w, &vec![1.0; d], &a).unwrap();
        assert!(residual(&w, &a, &law.covariance) < 1e-13, "{d}");
        assert!((0..d).all(|i| (0..i).all(|j| law.covariance[(i, j)] == law.covariance[(j, i)])));
    }
    // Far from normal: a chain in which every variable drives the next ten times as strongly as itself.
    let w = Matrix::from_fn(8, 8, |i, j| match i.wrapping_sub(j) {
        0 => -1.0,
        1 => 10.0,
        _ => 0.0,
    });
    let a = Matrix::from_fn(8, 8, |i, j| if i == j { 1.0 } else { 0.0 });
    let law = Gaussian::stationary(&w, &[0.0; 8], &a).unwrap();
    assert!(residual(&w, &a, &law.covariance) < 1e-12);
    assert!(law.covariance[(7, 7)] > 1e13);
    // Time scales a million apart, and rotation much faster than decay.
    let w = Matrix::from_rows(3, 3, vec![-1e-3, 0.0, 0.0, 1.0, -1e3, 0.5, 0.0, 0.2, -1.0]);
    let law = Gaussian::stationary(&w, &[0.0; 3], &diffusion(3, 3)).unwrap();
    assert!(residual(&w, &diffusion(3, 3), &law.covariance) < 1e-12);
    let w = Matrix::from_rows(2, 2, vec![-1e-2, 50.0, -50.0, -1e-2]);
    let a = Matrix::from_rows(2, 2, vec![1.0, 0.0, 0.0, 1.0]);
    let law = Gaussian::stationary(&w, &[0.0; 2], &a).unwrap();
    assert!((law.covariance[(0, 0)] - 50.0).abs() < 1e-8 && law.covariance[(0, 1)].abs() < 1e-8);
}

#[test]
fn weights_that_are_not_stable_have_no_law() {
    let a = Matrix::from_rows(2, 2, vec![1.0, 0.0, 0.0, 1.0]);
    for (weights, piece) in [
        (vec![0.25, 0.0, 0.0, -1.0], "is 0.250000, expected it below 0"),
        (vec![0.0, 0.0, 0.0, -1.0], "is 0.000000"),
        (vec![0.0, 1.0, -1.0, 0.0], "is 0.000000"),
        (vec![1.0, 1.0, -1.0, 1.0], "is 1.000000"),
        (vec![0.0; 4], "is 0.000000"),
    ] {
        let error = Gaussian::stationary(&Matrix::from_rows(2, 2, weights), &[0.0; 2], &a).unwrap_err();
        assert!(matches!(error, Error::NonFinite(_)) && error.to_string().contains(piece), "{error}");
    }
    let wrong = |w: Matrix<f64>, b: &[f64]| Gaussian::stationary(&w, b, &a).unwrap_err().to_string();
    assert!(wrong(Matrix::full(2, 3, 0.0), &[0.0; 2]).contains("shape [2, 3], expected [d, d]"));
    assert!(wrong(Matrix::full(2, 2, f64::NAN), &[0.0; 2]).contains("NaN at [0, 0]"));
    assert!(wrong(Matrix::full(3, 3, 1.0), &[0.0; 2]).contains("expected 3 and [3, 3]"));
}

#[test]
fn the_spectral_abscissa_is_the_largest_real_part() {
    let abscissa = |d, entries| spectral_abscissa(&Matrix::from_rows(d, d, entries)).unwrap();
    assert!((abscissa(1, vec![-3.0]) + 3.0).abs() < 1e-14);
    // −½ ± 2i, and −2.
    let weights = vec![-0.5, 2.0, 1.0, -2.0, -0.5, 4.0, 0.0, 0.0, -2.0];
    assert!((abscissa(3, weights) + 0.5).abs() < 1e-12);
    assert!(spectral_abscissa(&Matrix::full(2, 1, 0.0)).is_err());
}

#[test]
fn exact_samples_have_the_law() {
    let law = Gaussian::stationary(&stable(5, 3), &[1.0, 0.0, -2.0, 0.5, 9.0], &diffusion(5, 4)).unwrap();
    assert_law(&law.draw(200_000, &mut rng(1)).unwrap(), &law.mean, &law.covariance);
    // A covariance of rank 1: all samples on a line.
    let line =
        Gaussian { mean: vec![1.0, -1.0], covariance: Matrix::from_rows(2, 2, vec![1.0, 2.0, 2.0, 4.0]) };
    let samples = line.draw(20_000, &mut rng(2)).unwrap();
    assert_law(&samples, &line.mean, &line.covariance);
    assert!((0..samples.rows()).all(|i| (samples[(i, 1)] + 3.0 - 2.0 * samples[(i, 0)]).abs() < 1e-6));
    let indefinite =
        Gaussian { mean: vec![0.0; 2], covariance: Matrix::from_rows(2, 2, vec![1.0, 2.0, 2.0, 1.0]) };
    assert!(indefinite.draw(2, &mut rng(3)).unwrap_err().to_string().contains("expected none below 0"));
    let nothing = Gaussian { mean: vec![3.0], covariance: Matrix::full(1, 1, 0.0) };
    assert_eq!(nothing.draw(2, &mut rng(3)).unwrap().as_slice(), [3.0, 3.0]);
}

#[test]
fn euler_has_the_covariance_of_its_own_recursion() {
    let d = 3;
    let (dt, w, b) = (0.05, stable(d, 11), vec![1.0, -1.0, 0.5]);
    for full in [false, true] {
        let mut model = linear(w.clone(), b.clone(), vec![0.2, -0.1, 0.0]);
        if full {
            model.parameters.noise = Noise::Full { noise: random(d, d, 12) };
        }
        let a = Intervention::none(d).diffusion(&model.parameters).unwrap();
        let law = Gaussian::stationary(&w, &b, &a).unwrap();
        // Σ = (I + dt W) Σ (I + dt W)ᵀ + dt a, by repetition.
        let step = Matrix::from_fn(d, d, |i, j| dt * w[(i, j)] + if i == j { 1.0 } else { 0.0 });
        let mut sigma = law.covariance.clone();
        for _ in 0..500 {
            let half =
                Matrix::from_fn(d, d, |i, j| (0..d).map(|k| step[(i, k)] * sigma[(k, j)]).sum::<f64>());
            sigma = Matrix::from_fn(d, d, |i, j| {
                dt * a[(i, j)] + (0..d).map(|k| half[(i, k)] * step[(j, k)]).sum::<f64>()
            });
        }
        let samples = sample(&model, 50_000, &by_euler(dt, 300, 100)).unwrap();
        assert_law(&samples, &law.mean, &sigma);
        // The step costs a few percent of the exact covariance, not more.
        for (found, exact) in sigma.as_slice().iter().zip(law.covariance.as_slice()) {
            assert!((found - exact).abs() < 0.2 * law.covariance[(0, 0)]);
        }
    }
}

#[test]
fn euler_is_of_weak_order_one() {
    // The stationary variance of Euler's Ornstein–Uhlenbeck process is σ²/(2θ) / (1 − θ dt/2).
    let (theta, sigma, n) = (1.5f64, 1.2f64, 400_000);
    let model = linear(Matrix::full(1, 1, -theta), vec![0.0], vec![sigma.ln()]);
    let exact = sigma * sigma / (2.0 * theta);
    let bias = |dt: f64| {
        let thin = (5.0 / (theta * dt)) as usize;
        let samples = sample(&model, n, &by_euler(dt, 4 * thin, thin)).unwrap();
        let variance = samples.as_slice().iter().map(|x| x * x).sum::<f64>() / n as f64;
        let expected = exact / (1.0 - theta * dt / 2.0);
        assert!((variance - expected).abs() <= ERRORS * expected * (2.0 / n as f64).sqrt(), "{variance}");
        variance - exact
    };
    let ratio = bias(0.2) / bias(0.1);
    assert!((1.8..2.6).contains(&ratio), "{ratio}");
}

#[test]
fn the_network_is_the_models_drift() {
    let (d, h, chains) = (5, 3, 7);
    let (hidden, biases, output) = (random(d * h, d, 1), random(d, h, 2), random(d, h, 3));
    let x = random(d, chains, 4).map(|x| 3.0 * x);
    for &activation in Activation::ALL {
        let network = Drift::Mlp(MlpDrift {
            activation,
            hidden_weights: hidden.clone(),
            hidden_biases: biases.clone(),
            output_weights: output.clone(),
        });
        let noise = Noise::Diagonal { log_noise: vec![0.0; d] };
        let network = network.dynamics().at_chains(&noise, 0.01).unwrap();
        let mut b = vec![0.0; d * chains];
        network.evaluate(x.as_slice(), chains, &mut b, &mut [], &mut ChainSpace::default());
        for (at, found) in b.iter().enumerate() {
            let (j, chain) = (at / chains, at % chains);
            let unit = |k: usize| {
                let row = hidden.row(j * h + k).iter().enumerate();
                let z = biases[(j, k)] + row.map(|(i, u)| u * x[(i, chain)]).sum::<f64>();
                output[(j, k)]
                    * match activation {
                        Activation::Sigmoid => 1.0 / (1.0 + (-z).exp()),
                        Activation::Tanh => z.tanh(),
                        Activation::Relu => z.max(0.0),
                    }
            };
            let expected = (0..h).map(unit).sum::<f64>() - x[(j, chain)];
            assert!((found - expected).abs() < 3e-6, "{activation} {found} {expected}");
        }
    }
}

#[test]
fn an_mlp_that_is_linear_has_the_linear_law() {
    // relu(z) − relu(−z) = z: a network of two units can be any linear map, here minus the x_j it gets for free.
    let (d, dt) = (2, 0.02);
    let w = [[-1.5, 0.8], [-0.6, -1.2]];
    let mut model = mlp(d, 2, 1);
    model.parameters.drift = Drift::Mlp(MlpDrift {
        activation: Activation::Relu,
        hidden_weights: Matrix::from_fn(2 * d, d, |r, i| {
            let entry = w[r / 2][i] + if r / 2 == i { 1.0 } else { 0.0 };
            if r % 2 == 0 { entry } else { -entry }
        }),
        hidden_biases: Matrix::full(d, 2, 0.0),
        output_weights: Matrix::from_fn(d, 2, |_, k| if k == 0 { 1.0 } else { -1.0 }),
    });
    let same = linear(Matrix::from_fn(d, d, |i, j| w[i][j]), vec![0.1; d], vec![-0.5; d]);
    // The same random numbers, so not only the same law.
    let settings = by_euler(dt, 500, 10);
    let (nonlinear, linear) =
        (sample(&model, 2000, &settings).unwrap(), sample(&same, 2000, &settings).unwrap());
    for (one, other) in nonlinear.as_slice().iter().zip(linear.as_slice()) {
        assert!((one - other).abs() < 1e-4, "{one} {other}");
    }
}

#[test]
fn a_chain_that_runs_away_is_named() {
    let model = linear(Matrix::full(1, 1, 2.0), vec![0.0], vec![0.0]);
    let error = sample(&model, 10, &by_euler(0.1, 1000, 1)).unwrap_err();
    let sentence = error.to_string();
    assert!(matches!(error, Error::NonFinite(_)) && sentence.contains("variable 0 of chain "), "{sentence}");
    assert!(sentence.contains("steps") && sentence.contains("the step 0.1 is too long"), "{sentence}");
    // Stable, but not with this step; clamping does not hide it.
    let model = linear(Matrix::full(1, 1, -30.0), vec![1.0], vec![0.0]);
    assert!(sample(&model, 10, &by_euler(0.1, 1000, 1)).is_err());
    assert!(sample(&model, 10, &by_euler(0.01, 1000, 1)).is_ok());
    let model = linear(Matrix::full(1, 1, 2.0), vec![1.0], vec![0.0]);
    assert!(sample(&model, 10, &SampleSettings { nonnegative: true, ..by_euler(0.1, 1000, 1) }).is_err());
    let model = linear(Matrix::full(1, 1, f64::NAN), vec![1.0], vec![0.0]);
    assert!(sample(&model, 10, &SampleSettings { nonnegative: true, ..by_euler(0.1, 1000, 1) }).is_err());
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let with_threads = |threads: usize, f: &(dyn Fn() -> Matrix<f64> + Sync)| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
    };
    let exact = || {
        let d = 160;
        let law = Gaussian::stationary(&stable(d, 1), &vec![1.0; d], &diffusion(d, 2)).unwrap();
        law.draw(1500, &mut rng(3)).unwrap()
    };
    let settings = by_euler(0.01, 50, 3);
    let network = || {
        sample(
            &mlp(4, 3, 1),
            400,
            &SampleSettings { euler: EulerSettings { chains: Some(150), ..settings.euler }, ..settings },
        )
        .unwrap()
    };
    for f in [&exact as &(dyn Fn() -> Matrix<f64> + Sync), &network] {
        let one = with_threads(1, f);
        assert!(one == with_threads(4, f) && one == with_threads(1, f));
    }
    let other = stationary_samples(&mlp(4, 3, 1), &Intervention::none(4), 400, &settings, 8).unwrap();
    assert!(other != sample(&mlp(4, 3, 1), 400, &settings).unwrap());
}

#[test]
fn rows_are_in_order_of_time_and_chains() {
    // Without noise or drift to speak of, every chain stays at its own place.
    let model = linear(Matrix::full(1, 1, -1e-12), vec![0.0], vec![-30.0]);
    let euler = EulerSettings { chains: Some(70), ..by_euler(0.01, 0, 1).euler };
    let samples = sample(&model, 160, &SampleSettings { euler, ..by_euler(0.01, 0, 1) }).unwrap();
    for i in 70..160 {
        assert!((samples[(i, 0)] - samples[(i - 70, 0)]).abs() < 1e-9);
    }
    assert!((samples[(0, 0)] - samples[(1, 0)]).abs() > 1e-6);
    assert_eq!(euler.steps_for(160, 70), 140);
    assert_eq!(Sampler::cpu().steps_for(10, &SampleSettings::default()), 30_000);
}

#[test]
fn interventions_move_the_law_as_they_say() {
    let mut model = linear(stable(3, 1), vec![0.0; 3], vec![0.0; 3]);
    model.parameters.shift = Some(Matrix::from_rows(2, 3, vec![0.0, 0.0, 0.0, 2.0, 0.0, -1.0]));
    model.targets = Some(Matrix::full(2, 3, false));
    assert_eq!(Intervention::of_environment(&model, 0).unwrap(), Intervention::none(3));
    let mut one = Intervention::of_environment(&model, 1).unwrap();
    assert_eq!(one, Intervention { shift: vec![2.0, 0.0, -1.0], log_scale: vec![0.0; 3] });
    let sentence = Intervention::of_environment(&model, 2).unwrap_err().to_string();
    assert_eq!(sentence, "environment 2 is unknown, expected a number below 2, the model's environments");
    one.add_shift(2, 0.5).unwrap();
    one.multiply_noise(0, 3.0).unwrap();
    assert_eq!(one.biases(&model.parameters), [2.0, 0.0, -0.5]);
    assert!((one.diffusion(&model.parameters).unwrap()[(0, 0)] - 9.0).abs() < 1e-12);
    assert!(one.add_shift(3, 1.0).is_err() && one.add_shift(0, f64::NAN).is_err());
    assert!(one.multiply_noise(0, 0.0).is_err() && one.multiply_noise(0, f64::INFINITY).is_err());
    // A full σ has its rows scaled.
    model.parameters.noise = Noise::Full { noise: random(3, 3, 4) };
    let plain = Intervention::none(3).diffusion(&model.parameters).unwrap();
    let scaled = one.diffusion(&model.parameters).unwrap();
    for (i, j, factor) in [(0, 0, 9.0), (0, 1, 3.0), (1, 0, 3.0), (1, 2, 1.0)] {
        assert!((scaled[(i, j)] - factor * plain[(i, j)]).abs() < 1e-12);
    }
}

#[test]
fn samples_are_in_the_datas_units() {
    let units = Standardization { mean: vec![100.0, -5.0], scale: vec![10.0, 0.5] };
    let weights = Matrix::from_rows(2, 2, vec![-1.0, 0.3, 0.0, -1.0]);
    let plain = linear(weights, vec![0.5, 0.0], vec![0.0; 2]);
    let model = Model { standardization: Some(units.clone()), ..plain.clone() };
    for method in [Method::Exact, Method::Euler] {
        let settings = SampleSettings { method, ..by_euler(0.05, 100, 10) };
        let mut expected = sample(&plain, 300, &settings).unwrap();
        units.undo(&mut expected);
        assert_eq!(sample(&model, 300, &settings).unwrap(), expected);
    }
    // Nonnegative in the data's units: the first variable never gets near 0, the second one is pulled below it.
    let settings = SampleSettings { nonnegative: true, ..SampleSettings::default() };
    assert_eq!(settings.method_for(&model).unwrap(), Method::Euler);
    let samples = sample(&model, 300, &settings).unwrap();
    assert!((0..300).all(|i| samples[(i, 0)] > 10.0 && (0.0..0.5).contains(&samples[(i, 1)])));
    assert!((0..300).filter(|&i| samples[(i, 1)] == 0.0).count() > 150);
}

#[test]
fn methods_that_do_not_suit_the_model_are_refused() {
    let method = |model: &Model, method, nonnegative| {
        SampleSettings { method, nonnegative, ..SampleSettings::default() }.method_for(model)
    };
    let (line, network) = (linear(Matrix::full(1, 1, -1.0), vec![0.0], vec![0.0]), mlp(2, 2, 1));
    assert_eq!(method(&line, Method::Auto, false).unwrap(), Method::Exact);
    assert_eq!(method(&line, Method::Auto, true).unwrap(), Method::Euler);
    assert_eq!(method(&network, Method::Auto, false).unwrap(), Method::Euler);
    assert!(method(&network, Method::Exact, false).unwrap_err().to_string().contains("not linear"));
    assert!(method(&line, Method::Exact, true).unwrap_err().to_string().contains("nonnegative"));
    let euler = EulerSettings::default();
    for (euler, piece) in [
        (EulerSettings { dt: 0.0, ..euler }, "dt is 0, expected"),
        (EulerSettings { dt: f64::NAN, ..euler }, "dt is NaN"),
        (EulerSettings { thin: 0, ..euler }, "thin is 0"),
        (EulerSettings { chains: Some(0), ..euler }, "chains is 0"),
    ] {
        let settings = SampleSettings { euler, ..SampleSettings::default() };
        let sentence = sample(&network, 5, &settings).unwrap_err().to_string();
        assert!(sentence.contains(piece), "{sentence}");
    }
    assert!(sample(&line, 0, &SampleSettings::default()).unwrap_err().to_string().contains("0 samples"));
    assert!(
        sample(&line, usize::MAX, &SampleSettings::default()).unwrap_err().to_string().contains("memory")
    );
    let wrong = stationary_samples(&line, &Intervention::none(2), 5, &SampleSettings::default(), 0);
    assert!(wrong.unwrap_err().to_string().contains("2 shifts and 2 scales, expected 1"));
}

fn standard_units() -> Standardization {
    Standardization { mean: vec![40.0, -0.3], scale: vec![5.0, 0.01] }
}

fn in_units(drift: Drift<f64>, noise: Noise<f64>) -> Parameters<f64> {
    let shift = Some(Matrix::from_rows(2, 2, vec![0.0, 0.0, 0.7, 0.0]));
    let log_scale = Some(Matrix::from_rows(2, 2, vec![0.0, 0.0, 0.2, 0.0]));
    Parameters { drift, biases: vec![0.1, -0.2], noise, shift, log_scale }
}

/// The same chains walk in both units: the same random numbers, step by step.
fn same_walk(standard: &Parameters<f64>, data: &Parameters<f64>) {
    let units = standard_units();
    let (z, x) = (Model::new(standard.clone()), Model::new(data.clone()));
    let settings = SampleSettings { method: Method::Euler, ..SampleSettings::default() };
    for e in 0..2 {
        let draw = |model: &Model| {
            let intervention = Intervention::of_environment(model, e).unwrap();
            stationary_samples(model, &intervention, 64, &settings, 5).unwrap()
        };
        let (mut expected, found) = (draw(&z), draw(&x));
        units.undo(&mut expected);
        for i in 0..found.rows() {
            for j in 0..2 {
                // The network's hidden layer is in f32.
                let difference = (found[(i, j)] - expected[(i, j)]) / units.scale[j];
                assert!(difference.abs() < 1e-4, "{e} {i} {j}: {difference}");
            }
        }
    }
}

#[test]
fn linear_and_neural_models_walk_the_same_way_in_both_units() {
    let weights = Matrix::from_rows(2, 2, vec![-1.0, 0.4, 0.3, -1.0]);
    let diagonal = || Noise::Diagonal { log_noise: vec![-0.5, 0.3] };
    let full = Noise::Full { noise: Matrix::from_rows(2, 2, vec![0.5, 0.1, -0.2, 0.8]) };
    let network = Drift::Mlp(MlpDrift {
        activation: Activation::Tanh,
        hidden_weights: Matrix::from_rows(4, 2, vec![0.0, 0.5, 0.0, -0.4, 1.0, 0.0, 0.7, 0.0]),
        hidden_biases: Matrix::from_rows(2, 2, vec![0.1, 0.2, -0.1, 0.0]),
        output_weights: Matrix::from_rows(2, 2, vec![0.8, -0.5, 0.3, 0.6]),
    });
    for standard in [
        in_units(Drift::linear(weights.clone()), diagonal()),
        in_units(Drift::linear(weights), full),
        in_units(network, diagonal()),
    ] {
        same_walk(&standard, &standard.in_units_of(&standard_units(), None).unwrap());
    }
}
