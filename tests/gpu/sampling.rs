//! Simulation on the device: step for step against a twin on the host, and its law against what is known of it.

use crate::common::{gpu_engine, random_parameters};
use skds::engine::gpu::plan::Bounds;
use skds::evaluate::TargetMeans;
use skds::model::{Activation, Drift, LinearDrift, MlpDrift, Model, Noise, Parameters};
use skds::predict::match_means;
use skds::sample::{
    Draw, EulerSettings, Gaussian, Intervention, Method, SampleSettings, Sampler, stationary_samples,
};
use skds::{Error, Matrix, Progress};

const DT: f64 = 0.05;

/// Threefry-4x32-20 as its authors define it.
fn threefry(counter: [u32; 4], key: [u32; 4]) -> [u32; 4] {
    const ROTATIONS: [[u32; 2]; 8] =
        [[10, 26], [11, 21], [13, 27], [23, 5], [6, 20], [17, 11], [25, 10], [18, 20]];
    let keys = [key[0], key[1], key[2], key[3], 0x1bd1_1bda ^ key[0] ^ key[1] ^ key[2] ^ key[3]];
    let mut v: [u32; 4] = std::array::from_fn(|i| counter[i].wrapping_add(keys[i]));
    for round in 0..20 {
        let [first, second] = ROTATIONS[round % 8];
        let (a, b) = if round % 2 == 0 { (1, 3) } else { (3, 1) };
        v[0] = v[0].wrapping_add(v[a]);
        v[a] = v[a].rotate_left(first) ^ v[0];
        v[2] = v[2].wrapping_add(v[b]);
        v[b] = v[b].rotate_left(second) ^ v[2];
        if round % 4 == 3 {
            let s = round / 4 + 1;
            (0..4).for_each(|i| v[i] = v[i].wrapping_add(keys[(s + i) % 5]));
            v[3] = v[3].wrapping_add(s as u32);
        }
    }
    v
}

/// The d normal numbers of a chain at a step.
fn normals(seed: u64, step: u32, chain: usize, d: usize) -> Vec<f64> {
    (0..d.div_ceil(4))
        .flat_map(|k| {
            let key = [seed as u32, (seed >> 32) as u32, 0, 0];
            let bits = threefry([step, chain as u32, k as u32, 0], key);
            let u = bits.map(|b| (f64::from(b >> 8) + 0.5) / f64::from(1 << 24));
            [(u[0], u[1]), (u[2], u[3])]
                .into_iter()
                .flat_map(|(a, b)| {
                    let (radius, angle) = ((-2.0 * a.ln()).sqrt(), std::f64::consts::TAU * b);
                    [radius * angle.cos(), radius * angle.sin()]
                })
                .collect::<Vec<_>>()
        })
        .take(d)
        .collect()
}

fn drift(p: &Parameters<f64>, e: usize, x: &[f64]) -> Vec<f64> {
    let d = x.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    (0..d)
        .map(|j| {
            let own = match &p.drift {
                Drift::Linear(LinearDrift { weights }) => dot(weights.row(j), x),
                Drift::Mlp(MlpDrift { activation, hidden_weights, hidden_biases, output_weights }) => {
                    let h = hidden_biases.cols();
                    (0..h)
                        .map(|k| {
                            let z = dot(hidden_weights.row(j * h + k), x) + hidden_biases[(j, k)];
                            let unit = match activation {
                                Activation::Sigmoid => 1.0 / (1.0 + (-z).exp()),
                                Activation::Tanh => z.tanh(),
                                Activation::Relu => z.max(0.0),
                            };
                            unit * output_weights[(j, k)]
                        })
                        .sum::<f64>()
                        - x[j]
                }
                other => unreachable!("devices do not simulate {}", other.name()),
            };
            own + p.biases[j] + p.shift.as_ref().unwrap()[(e, j)]
        })
        .collect()
}

/// One step of the twin.
fn step(p: &Parameters<f64>, e: usize, x: &mut [f64], z: &[f64], floor: Option<f64>) {
    let b = drift(p, e, x);
    for j in 0..x.len() {
        let noise = match &p.noise {
            Noise::Basis { .. } => unreachable!("devices do not know it"),
            Noise::Diagonal { log_noise } => log_noise[j].exp() * z[j],
            Noise::Full { noise } => noise.row(j).iter().zip(z).map(|(s, z)| s * z).sum(),
        };
        let scale = p.log_scale.as_ref().unwrap()[(e, j)].exp();
        x[j] = (x[j] + b[j] * DT + DT.sqrt() * scale * noise).max(floor.unwrap_or(f64::MIN));
    }
}

#[test]
fn the_generator_is_the_published_one() {
    // The known answers of its authors' library for counter and key of zeros and of ones.
    assert_eq!(threefry([0; 4], [0; 4]), [0x9c6c_a96a, 0xe17e_ae66, 0xfc10_ecd4, 0x5256_a7d8]);
    assert_eq!(threefry([u32::MAX; 4], [u32::MAX; 4]), [0x2a88_1696, 0x5701_2287, 0xf6c7_446e, 0xa16a_6732]);
}

#[test]
fn steps_follow_a_twin_on_the_host() {
    let engine = gpu_engine();
    // Spans of a few blocks: chains of one environment lie in several buffers.
    let spans = gpu_engine().with_bounds(Bounds::new(128 << 10, 1 << 30));
    let activations = [None, Some(Activation::Sigmoid), Some(Activation::Tanh), Some(Activation::Relu)];
    let shapes = [(1, vec![2]), (5, vec![70, 1, 64]), (67, vec![3, 130])];
    let mut tried = 0;
    for (case, (d, chains)) in shapes.iter().enumerate() {
        for activation in activations {
            for full in [false, true] {
                let p = random_parameters(case as u64 + 3, *d, chains.len(), activation, full);
                let seeds: Vec<u64> = (0..chains.len()).map(|e| 0xabc_0000_0000 * e as u64 + 17).collect();
                let floor = (tried % 2 == 1).then_some(-0.3);
                let floors = floor.map(|floor| vec![floor; *d]);
                let engine = if tried % 3 == 0 { &spans } else { &engine };
                let mut walk = engine.walk(&p, chains, &seeds, DT, floors.as_deref()).unwrap();
                let starts = walk.chains().unwrap();
                let done = Progress::default();
                walk.walk(3, &done).unwrap();
                assert_eq!(done.done(), 3 * chains.iter().sum::<usize>() as u64);
                let ends = walk.chains().unwrap();
                for (e, n) in chains.iter().enumerate() {
                    for chain in 0..*n {
                        let mut x = normals(seeds[e], 0, chain, *d);
                        x.iter_mut().for_each(|x| *x = x.max(floor.unwrap_or(f64::MIN)));
                        let near = |found: &[f64], x: &[f64]| {
                            found.iter().zip(x).all(|(f, x)| (f - x).abs() < 2e-3 * (1.0 + x.abs()))
                        };
                        assert!(near(starts[e].row(chain), &x), "{d} {activation:?} {full} start");
                        for s in 1..=3 {
                            step(&p, e, &mut x, &normals(seeds[e], s, chain, *d), floor);
                        }
                        let found = ends[e].row(chain);
                        assert!(near(found, &x), "{d} {activation:?} {full} {e} {chain}: {found:?} {x:?}");
                    }
                }
                tried += 1;
            }
        }
    }
}

fn model(parameters: Parameters<f64>) -> Model {
    Model::new(parameters)
}

fn settings() -> SampleSettings {
    let euler = EulerSettings { dt: 0.02, burn_in: 300, thin: 150, chains: Some(2048) };
    SampleSettings { method: Method::Euler, euler, nonnegative: false }
}

fn moments(samples: &Matrix<f64>) -> (Vec<f64>, Matrix<f64>) {
    let (n, d) = (samples.rows() as f64, samples.cols());
    let mean: Vec<f64> =
        (0..d).map(|j| (0..samples.rows()).map(|i| samples[(i, j)]).sum::<f64>() / n).collect();
    let covariance = Matrix::from_fn(d, d, |j, k| {
        (0..samples.rows()).map(|i| (samples[(i, j)] - mean[j]) * (samples[(i, k)] - mean[k])).sum::<f64>()
            / n
    });
    (mean, covariance)
}

#[test]
fn the_law_of_a_linear_model_is_lyapunovs() {
    let sampler = Sampler::with_gpu(Some(gpu_engine()));
    let parameters = Parameters { shift: None, log_scale: None, ..random_parameters(5, 3, 1, None, true) };
    let model = model(parameters);
    let mut shifted = Intervention::none(3);
    shifted.add_shift(1, 2.0).unwrap();
    shifted.multiply_noise(0, 1.5).unwrap();
    for intervention in [Intervention::none(3), shifted] {
        let draw = Draw { intervention: &intervention, samples: 8192, seed: 3 };
        let samples =
            sampler.draw(&model, &[draw], &settings(), &Progress::default()).unwrap().remove(0).unwrap();
        let weights = model.parameters.drift.linear_weights().unwrap();
        let biases = intervention.biases(&model.parameters);
        let law = Gaussian::stationary(weights, &biases, &intervention.diffusion(&model.parameters).unwrap())
            .unwrap();
        let (mean, covariance) = moments(&samples);
        for j in 0..3 {
            let deviation = law.covariance[(j, j)].sqrt();
            // Six standard errors of nearly independent samples.
            assert!((mean[j] - law.mean[j]).abs() < 6.0 * deviation / 64.0, "{mean:?} {:?}", law.mean);
            for k in 0..3 {
                let scale = deviation * law.covariance[(k, k)].sqrt();
                // Of the covariance, and the bias of a step of 0.02: a few percent.
                let error = (covariance[(j, k)] - law.covariance[(j, k)]).abs();
                assert!(error < (6.0 * 2f64.sqrt() / 64.0 + 0.03) * scale, "{j} {k} {error}");
            }
        }
    }
}

#[test]
fn an_mlp_has_the_same_law_on_both_devices() {
    let parameters = Parameters {
        shift: None,
        log_scale: None,
        ..random_parameters(6, 4, 1, Some(Activation::Sigmoid), false)
    };
    let model = model(parameters);
    let none = Intervention::none(4);
    let draw = Draw { intervention: &none, samples: 4096, seed: 3 };
    let gpu = Sampler::with_gpu(Some(gpu_engine()));
    let found = gpu.draw(&model, &[draw], &settings(), &Progress::default()).unwrap().remove(0).unwrap();
    let expected = stationary_samples(&model, &none, 4096, &settings(), 4).unwrap();
    let ((mean, covariance), (mean2, covariance2)) = (moments(&found), moments(&expected));
    for j in 0..4 {
        let deviation = covariance2[(j, j)].sqrt();
        assert!((mean[j] - mean2[j]).abs() < 6.0 * 1.5 * deviation / 64.0, "{mean:?} {mean2:?}");
        let ratio = covariance[(j, j)] / covariance2[(j, j)];
        assert!((ratio - 1.0).abs() < 6.0 * 2.0 / 64.0, "{ratio}");
    }
    // The same bits again, whatever else is drawn, and on a device opened anew.
    let mut pushed = Intervention::none(4);
    pushed.add_shift(0, 1.0).unwrap();
    let other = Draw { intervention: &pushed, samples: 100, seed: 9 };
    let again = Sampler::with_gpu(Some(gpu_engine()));
    let both = again.draw(&model, &[other, draw], &settings(), &Progress::default()).unwrap();
    assert_eq!(both[1].as_ref().unwrap().as_slice(), found.as_slice());
    assert_eq!(both[0].as_ref().unwrap().rows(), 100);
}

#[test]
fn a_simulation_is_steered_on_the_device_as_on_the_host() {
    let drift = random_parameters(6, 4, 1, Some(Activation::Sigmoid), false);
    let model = model(Parameters { shift: None, log_scale: None, ..drift });
    let none = Intervention::none(4);
    let at_rest = moments(&stationary_samples(&model, &none, 4096, &settings(), 4).unwrap());
    let deviation = |j: usize| at_rest.1[(j, j)].sqrt();
    let goal = |j: usize, by: f64| at_rest.0[j] + by * deviation(j);
    let wanted = [
        TargetMeans { targets: vec![1], means: vec![goal(1, 2.0)] },
        TargetMeans { targets: vec![0, 3], means: vec![goal(0, -1.0), goal(3, 1.5)] },
    ];
    let settings = SampleSettings { euler: EulerSettings { burn_in: 600, ..settings().euler }, ..settings() };
    let find = |sampler: &Sampler| -> Vec<Intervention> {
        let found = match_means(sampler, &model, &wanted, &settings, 3, &Progress::default()).unwrap();
        found.into_iter().map(Result::unwrap).collect()
    };
    let (gpu, cpu) = (find(&Sampler::with_gpu(Some(gpu_engine()))), find(&Sampler::cpu()));
    for ((wanted, gpu), cpu) in wanted.iter().zip(&gpu).zip(&cpu) {
        // By other random numbers: a host's simulation under each shift has the wanted mean, and nothing else is shifted.
        for found in [gpu, cpu] {
            let (means, _) = moments(&stationary_samples(&model, found, 4096, &settings, 5).unwrap());
            for j in 0..4 {
                match wanted.targets.iter().position(|target| *target == j) {
                    None => assert_eq!(found.shift[j], 0.0),
                    Some(k) => {
                        let miss = (means[j] - wanted.means[k]) / deviation(j);
                        assert!(miss.abs() < 0.1, "variable {j} misses by {miss}");
                    }
                }
            }
        }
        for &j in &wanted.targets {
            assert!(
                (gpu.shift[j] - cpu.shift[j]).abs() < 0.2 * (1.0 + cpu.shift[j].abs()),
                "{gpu:?} {cpu:?}"
            );
        }
    }
    assert_eq!(find(&Sampler::with_gpu(Some(gpu_engine()))), gpu);
}

#[test]
fn a_model_without_a_law_is_an_error_of_its_own_draw() {
    let unstable = Matrix::from_rows(2, 2, vec![-1.0, 4.0, 4.0, -1.0]);
    let mut parameters = random_parameters(5, 2, 1, None, false);
    parameters.drift = Drift::linear(unstable);
    let model = model(Parameters { shift: None, log_scale: None, ..parameters });
    let none = Intervention::none(2);
    let done = Progress::default();
    let draw = Draw { intervention: &none, samples: 10, seed: 3 };
    let euler = EulerSettings { dt: 0.1, burn_in: 400, thin: 1, chains: None };
    let settings = SampleSettings { euler, ..settings() };
    let drawn = Sampler::with_gpu(Some(gpu_engine())).draw(&model, &[draw], &settings, &done).unwrap();
    match &drawn[0] {
        Err(Error::NonFinite(problem)) => assert!(problem.contains("ran away"), "{problem}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(done.done(), 4000);
}

#[test]
fn a_wrong_step_is_noticed() {
    let p = random_parameters(5, 5, 1, None, true);
    let walked = |from: &str, to: &str| {
        let engine = if from.is_empty() { gpu_engine() } else { gpu_engine().with_edit("euler", from, to) };
        let mut walk = engine.walk(&p, &[7], &[1], DT, None).unwrap();
        walk.walk(3, &Progress::default()).unwrap();
        walk.chains().unwrap().remove(0)
    };
    let right = walked("", "");
    for (from, to) in [
        ("* job.dt + job.root_dt", "* job.dt + 0.9 * job.root_dt"),
        ("before + work", "before + 0.9 * work"),
        ("vec4<u32>(job.step, chain, k, 0u)", "vec4<u32>(job.step, chain, 0u, 0u)"),
        ("vec4<u32>(job.step, chain, k, 0u)", "vec4<u32>(1u, chain, k, 0u)"),
        ("exp(log_scale) * sum", "sum"),
    ] {
        let wrong = walked(from, to);
        let error =
            wrong.as_slice().iter().zip(right.as_slice()).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(error > 2e-2, "{from}: {error}");
    }
}
