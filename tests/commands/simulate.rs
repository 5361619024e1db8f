//! The simulators against what theory says of them, and `skds simulate`.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use skds::Matrix;
use skds::data::Dataset;
use skds::simulate::{
    GraphKind, LinearTruth, NoiseKind, Parameters, SergioSettings, SergioTruth, Settings, Simulated,
    Simulation, System, descendants, simulate,
};
use std::path::Path;
use std::process::{Command, Output};

fn drawn(settings: &Settings) -> Simulated {
    simulate(settings, &Default::default()).unwrap()
}

fn small(system: System) -> Settings {
    Settings { system, dim: 6, edges: 2, rows: 20_000, train_envs: 3, test_envs: 3, ..Settings::default() }
}

/// An environment's mean and covariance in the system's own units.
fn moments(simulated: &Simulated, data: &Dataset, e: usize) -> (Vec<f64>, Matrix<f64>) {
    let mut x = data.environment(e);
    simulated.truth.units.undo(&mut x);
    let (n, d) = (x.rows() as f64, x.cols());
    let mean: Vec<f64> = (0..d).map(|j| (0..x.rows()).map(|i| x[(i, j)]).sum::<f64>() / n).collect();
    let product = |a: usize, b: usize| {
        (0..x.rows()).map(|i| (x[(i, a)] - mean[a]) * (x[(i, b)] - mean[b])).sum::<f64>() / n
    };
    let covariance = Matrix::from_fn(d, d, product);
    (mean, covariance)
}

fn linear(simulated: &Simulated) -> &LinearTruth {
    let Parameters::Linear(truth) = &simulated.truth.parameters else { panic!("expected a linear system") };
    truth
}

fn genes(simulated: &Simulated) -> &SergioTruth {
    let Parameters::Sergio(truth) = &simulated.truth.parameters else { panic!("expected genes") };
    truth
}

/// Environments of training and test with the interventions in force.
fn environments(simulated: &Simulated) -> Vec<(&Dataset, usize, &[f64])> {
    let Simulated { train, test, truth } = simulated;
    let of_train = (0..train.environments()).map(|e| (train, e, truth.train_interventions.row(e)));
    of_train.chain((0..test.environments()).map(|e| (test, e, truth.test_interventions.row(e)))).collect()
}

#[test]
fn a_diffusion_has_the_moments_of_its_stationary_law() {
    let exact = small(System::Sde);
    let euler = Settings { simulate: Simulation::Euler, rows: 3000, ..small(System::Sde) };
    for (settings, allowed) in [(exact, 0.03), (euler, 0.1)] {
        let simulated = drawn(&settings);
        let LinearTruth { weights, biases, noise } = linear(&simulated);
        for (data, e, shift) in environments(&simulated) {
            let (mean, s) = moments(&simulated, data, e);
            for j in 0..6 {
                // W m + b + shift = 0, on the scale of what the mean's error may be.
                let drift: f64 =
                    (0..6).map(|i| weights[(j, i)] * mean[i]).sum::<f64>() + biases[j] + shift[j];
                let size: f64 = (0..6).map(|i| (weights[(j, i)] * s[(i, i)].sqrt()).abs()).sum();
                assert!(drift.abs() < allowed * size, "{e} {j}: {drift} {size}");
                // W S + S Wᵀ + D Dᵀ = 0.
                for k in 0..6 {
                    let half = |a: usize, b: usize| (0..6).map(|i| weights[(a, i)] * s[(i, b)]).sum::<f64>();
                    let size: f64 = (0..6)
                        .map(|i| (weights[(j, i)].abs() + weights[(k, i)].abs()) * s[(i, i)])
                        .sum::<f64>();
                    let residual = half(j, k) + half(k, j) + if j == k { noise[j] * noise[j] } else { 0.0 };
                    assert!(residual.abs() < allowed * size, "{e} {j} {k}: {residual} {size}");
                }
            }
        }
    }
}

#[test]
fn structural_equations_have_their_closed_form() {
    let simulated = drawn(&small(System::Scm));
    let LinearTruth { weights, biases, noise } = linear(&simulated);
    for (data, e, shift) in environments(&simulated) {
        let (mean, s) = moments(&simulated, data, e);
        let residual =
            |j: usize, m: &dyn Fn(usize) -> f64| m(j) - (0..6).map(|i| weights[(j, i)] * m(i)).sum::<f64>();
        for j in 0..6 {
            let found = residual(j, &|i| mean[i]);
            // x − W x = noise + biases + shift.
            assert!(
                (found - biases[j] - shift[j]).abs() < 4.0 * noise[j].abs() / 20_000f64.sqrt(),
                "{e} {j}"
            );
            for k in 0..6 {
                let found = residual(j, &|i| residual(k, &|l| s[(i, l)]));
                let expected = if j == k { noise[j] * noise[j] } else { 0.0 };
                let size = (noise[j] * noise[k]).abs();
                assert!((found - expected).abs() < 0.05 * size, "{e} {j} {k}: {found} {expected}");
            }
        }
    }
}

#[test]
fn everything_is_in_units_of_the_observational_environment_and_targets_differ() {
    for &system in System::ALL {
        let simulated = drawn(&Settings { rows: 400, ..small(system) });
        let x = simulated.train.environment(0);
        for j in 0..6 {
            let mean = (0..400).map(|i| x[(i, j)]).sum::<f64>() / 400.0;
            let square = (0..400).map(|i| x[(i, j)].powi(2)).sum::<f64>() / 400.0;
            assert!(mean.abs() < 1e-9 && (square - 1.0).abs() < 1e-9);
        }
        let mut targets: Vec<usize> = Vec::new();
        for (data, e, _) in environments(&simulated).into_iter().skip(1) {
            let of: Vec<usize> = (0..6).filter(|&j| data.targets()[(e, j)]).collect();
            assert_eq!(of.len(), 1);
            targets.extend(of);
        }
        targets.sort_unstable();
        assert_eq!(targets, [0, 1, 2, 3, 4, 5]);
        assert!(!simulated.train.targets().row(0).contains(&true));
    }
}

#[test]
fn interventions_move_nothing_but_descendants() {
    for &system in System::ALL {
        for &graph in GraphKind::ALL {
            let settings = Settings { graph, acyclic: true, rows: 4000, seed: 5, ..small(system) };
            let simulated = drawn(&settings);
            let (rest, covariance) = moments(&simulated, &simulated.train, 0);
            let mut moved = 0;
            for (data, e, _) in environments(&simulated).into_iter().skip(1) {
                let target = (0..6).find(|&j| data.targets()[(e, j)]).unwrap();
                let reached = descendants(&simulated.truth.graph, target);
                let (mean, _) = moments(&simulated, data, e);
                for j in 0..6 {
                    let away = (mean[j] - rest[j]).abs() / covariance[(j, j)].sqrt();
                    // Neighbouring times of a cell type are alike, so the error of sergio's means is larger than 1/√n.
                    assert!(
                        reached[j] || away < if system == System::Sergio { 0.3 } else { 0.1 },
                        "{system} {away}"
                    );
                    moved += usize::from(reached[j] && away > 0.3);
                }
                assert!((mean[target] - rest[target]).abs() > 0.3 * covariance[(target, target)].sqrt());
            }
            assert!(moved > 6, "{system} {graph}: {moved}");
        }
    }
}

/// All genes at once, every cell a chain of its own: another way through the same equations.
fn means_by_chains(simulated: &Simulated, settings: &SergioSettings, factors: &[f64]) -> Vec<f64> {
    let truth = genes(simulated);
    let d = truth.half.len();
    let mut rng = ChaCha8Rng::seed_from_u64(77);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut sums = vec![0.0; d];
    let (cells, steps, dt) = (200, 6000, 0.005f64);
    for cell in 0..cells {
        let cell_type = cell % settings.cell_types;
        let mut x = vec![3.0f64; d];
        for step in 0..steps {
            let before = x.clone();
            for j in 0..d {
                let regulated: f64 = (0..d)
                    .filter(|&i| truth.strengths[(j, i)] != 0.0)
                    .map(|i| {
                        let (up, half) = (before[i].powf(settings.hill), truth.half[i].powf(settings.hill));
                        let share = up / (half + up);
                        let k = truth.strengths[(j, i)];
                        if k > 0.0 { k * share } else { -k * (1.0 - share) }
                    })
                    .sum();
                let p = factors[j] * (truth.basal[(j, cell_type)] + regulated);
                let loss = settings.decay * before[j];
                let random = match settings.noise_kind {
                    NoiseKind::Dpd => p.sqrt() * normal() + loss.sqrt() * normal(),
                    NoiseKind::Sp => p.sqrt() * normal(),
                    NoiseKind::Spd => (p.sqrt() + loss.sqrt()) * normal(),
                };
                x[j] = (before[j] + (p - loss) * dt + settings.noise * dt.sqrt() * random).max(0.0);
                if step >= steps / 2 {
                    sums[j] += x[j];
                }
            }
        }
    }
    sums.iter().map(|sum| sum / (cells * steps / 2) as f64).collect()
}

#[test]
fn gene_expression_has_the_means_of_an_independent_simulation() {
    for noise_kind in [NoiseKind::Dpd, NoiseKind::Sp, NoiseKind::Spd] {
        let sergio = SergioSettings { noise_kind, cell_types: 4, ..SergioSettings::default() };
        let settings = Settings { rows: 4000, sergio: sergio.clone(), ..small(System::Sergio) };
        let simulated = drawn(&settings);
        let truth = genes(&simulated);
        let (mean, covariance) = moments(&simulated, &simulated.train, 0);
        let masters: Vec<usize> = (0..6).filter(|&j| truth.basal.row(j).iter().all(|b| *b > 0.0)).collect();
        assert!(!masters.is_empty());
        for &j in &masters {
            // dx = (P − λx) dt + …: the mean over cell types is that of P over λ.
            let expected = truth.basal.row(j).iter().sum::<f64>() / 4.0 / sergio.decay;
            assert!((mean[j] - expected).abs() < 0.04 * expected, "{noise_kind} {j}: {} {expected}", mean[j]);
        }
        for (data, e, factors) in environments(&simulated).into_iter().take(2) {
            let (mean, _) = moments(&simulated, data, e);
            let expected = means_by_chains(&simulated, &sergio, factors);
            for j in 0..6 {
                let allowed = 0.05 * expected[j] + 0.08 * covariance[(j, j)].sqrt();
                assert!(
                    (mean[j] - expected[j]).abs() < allowed,
                    "{noise_kind} {e} {j}: {} {}",
                    mean[j],
                    expected[j]
                );
            }
        }
        for j in 0..6 {
            assert!((truth.half[j] - mean[j]).abs() < 0.05 * mean[j] + 0.05);
        }
    }
}

#[test]
fn knocking_down_and_acting_together_lower_expression() {
    let sergio = |cooperative: bool, knockdown: bool| SergioSettings {
        cooperative,
        knockdown,
        cell_types: 2,
        ..SergioSettings::default()
    };
    let of = |sergio: SergioSettings| drawn(&Settings { rows: 400, sergio, ..small(System::Sergio) });
    let down = of(sergio(false, true));
    for (data, e, factors) in environments(&down).into_iter().skip(1) {
        let target = (0..6).find(|&j| data.targets()[(e, j)]).unwrap();
        assert!((0.1..=0.5).contains(&factors[target]));
        let (rest, mean) = (moments(&down, &down.train, 0).0, moments(&down, data, e).0);
        assert!(mean[target] < 0.8 * rest[target]);
    }
    // A product of responses below 1 is below their mean.
    let (sum, product) = (of(sergio(false, false)), of(sergio(true, false)));
    let (sum_means, product_means) = (moments(&sum, &sum.train, 0).0, moments(&product, &product.train, 0).0);
    for j in 0..6 {
        let regulators = (0..6).filter(|&i| sum.truth.graph[(j, i)]).count();
        assert!(regulators < 2 || product_means[j] < sum_means[j]);
    }
}

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("simulate").args(args).output().unwrap()
}

#[test]
fn the_command_writes_a_folder_that_its_manifest_makes_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let sizes = ["--dim", "6", "--rows", "50", "--train-envs", "3", "--test-envs", "3", "--edges", "2"];
    for system in ["sde", "scm", "sergio"] {
        let first = at(system);
        let rest = ["-o", &first, "--seed", "7", "--graph", "sf"];
        let output = skds(&[&[system][..], &rest, &sizes].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(&format!("{system} on an sf graph of 6 variables and")), "{text}");
        let again = at(&format!("{system} again"));
        let manifest = format!("{first}/manifest.json");
        assert!(skds(&["--manifest", &manifest, "-o", &again]).status.success());
        for file in ["train.npz", "test.npz", "truth.npz", "manifest.json"] {
            let read = |folder: &str| std::fs::read(Path::new(folder).join(file)).unwrap();
            assert_eq!(read(&first), read(&again), "{system} {file}");
        }
        let train = Dataset::read(Path::new(&format!("{first}/train.npz"))).unwrap();
        assert_eq!((train.environments(), train.dim(), train.samples().rows()), (4, 6, 200));
        let other = at(&format!("{system} other"));
        let output = skds(&[&[system, "-o", &other, "--seed", "8", "--graph", "sf"][..], &sizes].concat());
        assert!(output.status.success());
        assert_ne!(
            std::fs::read(format!("{other}/train.npz")).unwrap(),
            std::fs::read(format!("{first}/train.npz")).unwrap()
        );
    }
}

#[test]
fn wrong_settings_get_one_sentence_and_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    std::fs::write(&file, "{}").unwrap();
    let cases: [(&[&str], &str); 14] = [
        (&["ode"], "unknown system 'ode', expected one of sde, scm, sergio"),
        (&["sde", "--dim", "15"], "10 training and 10 test environments for 15 variables"),
        (&["sde", "--edges", "0"], "found 0 edges"),
        (&["sde", "--edges", "20"], "20 edges per variable for 20 variables"),
        (&["sde", "--rows", "1"], "found 1 rows, expected at least 2"),
        (&["sde", "--test-envs", "0"], "found 0 test environments"),
        (&["sde", "--weights", "3..1"], "the range is '3..1', expected LOW..HIGH"),
        (&["sergio", "--cell-types", "0"], "found 0 cell types"),
        (&["sergio", "--dt", "2"], "decay times dt is 1, expected less than 1"),
        (&["sde", "--graph", "sbm", "--blocks", "21"], "found 21 blocks"),
        (&["sde", "--margin", "0"], "margin is 0, expected a finite number above 0"),
        (&["sde", "--euler-thin", "0"], "found 0 steps from one sample to the next"),
        (&["sergio", "--steps-per-cell", "0"], "found 0 steps per cell"),
        (&["--manifest", &file], "is not the manifest of a simulation"),
    ];
    for (args, piece) in cases {
        let output = skds(&[args, &["-o", &out]].concat());
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(sentence.contains(piece), "{args:?}: {sentence}");
        assert_eq!(output.status.code(), Some(2));
        assert!(!Path::new(&out).exists());
    }
    let output = skds(&["sde", "-o", &file]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a file, expected a folder"));
}
