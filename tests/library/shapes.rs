//! Edge shapes, large shapes, precision and determinism.

use crate::common::{SHAPES, all_specs, evaluate, random_data, random_parameters, relative_error, tensors};
use skds::Matrix;
use skds::data::Dataset;
use skds::engine::LossSpec;
use skds::kernel::KernelKind;
use skds::model::Activation;
use skds::objective::{Estimator, Objective};

/// float32 against float64 on the same input, relative to the largest entry.
const F32_TOLERANCE: f64 = 2e-4;

fn compare_precisions(data: &Dataset, spec: &LossSpec, activation: Option<Activation>, full: bool) {
    let parameters = random_parameters(9, data.dim(), data.environments(), activation, full);
    let (exact, slopes) = evaluate::<f64>(data, spec, &parameters).unwrap();
    let (rounded, found) = evaluate::<f32>(data, spec, &parameters.cast()).unwrap();
    assert!((exact - rounded).abs() <= F32_TOLERANCE * exact.abs().max(1e-3), "{spec:?} {exact} {rounded}");
    for ((name, found), (_, expected)) in tensors(&found).into_iter().zip(tensors(&slopes)) {
        let error = relative_error(&found, &expected);
        assert!(error <= F32_TOLERANCE, "d={} {spec:?} {name}: {error:e}", data.dim());
    }
}

#[test]
fn edge_shapes_work_in_both_precisions() {
    for (sizes, d) in
        [(vec![2], 1), (vec![3], 1), (vec![2, 2], 2), (vec![5, 2, 3], 1), (vec![2], 9), (vec![65], 7)]
    {
        let data = random_data(10, &sizes, d);
        for (_, activation, full) in SHAPES {
            for spec in all_specs(1.5) {
                compare_precisions(&data, &spec, activation, full);
            }
        }
    }
}

#[test]
fn shapes_past_every_block_size_agree_between_precisions() {
    for (sizes, d) in [(vec![601, 130], 33), (vec![300], 211)] {
        let data = random_data(11, &sizes, d);
        for (_, activation, full) in [SHAPES[0], SHAPES[1], SHAPES[2]] {
            for spec in all_specs((d as f64).sqrt()) {
                compare_precisions(&data, &spec, activation, full);
            }
        }
    }
}

#[test]
fn far_from_the_origin_distances_do_not_cancel() {
    let near = random_data(12, &[150], 5);
    let far = Dataset::from_environments(vec![near.samples().map(|v| v + 1000.0)]).unwrap();
    // Both precisions start from the same rounded samples: only the arithmetic differs.
    let far = Dataset::from_environments(vec![far.samples().map(|v| f64::from(v as f32))]).unwrap();
    for &objective in Objective::ALL {
        for &estimator in Estimator::ALL {
            let kernel = KernelKind::Rbf.with_bandwidth(2.0).unwrap();
            let spec = LossSpec { objective, kernel, estimator };
            // A drift that is moderate there: only the reversion to zero is large.
            let mut parameters = random_parameters(13, 5, 1, Some(Activation::Tanh), false);
            parameters.biases.fill(1000.0);
            let (exact, _) = evaluate::<f64>(&far, &spec, &parameters).unwrap();
            let (rounded, _) = evaluate::<f32>(&far, &spec, &parameters.cast()).unwrap();
            assert!((exact - rounded).abs() <= 2e-3 * exact.abs(), "{spec:?} {exact} {rounded}");
        }
    }
}

#[test]
fn two_rows_give_the_same_by_every_unbiased_estimate() {
    let data = random_data(14, &[2], 4);
    for (_, activation, full) in SHAPES {
        let parameters = random_parameters(15, 4, 1, activation, full);
        for linear in all_specs(1.2).into_iter().filter(|s| s.estimator == Estimator::Linear) {
            let u = LossSpec { estimator: Estimator::U, ..linear };
            let (one, _) = evaluate::<f64>(&data, &linear, &parameters).unwrap();
            let (other, _) = evaluate::<f64>(&data, &u, &parameters).unwrap();
            assert!((one - other).abs() < 1e-13 * one.abs().max(1.0), "{linear:?} {one} {other}");
        }
    }
}

#[test]
fn an_odd_last_row_changes_nothing_for_the_linear_estimator() {
    let even = random_data(16, &[6], 3);
    let mut rows = even.samples().as_slice().to_vec();
    rows.extend([1e3, -1e3, 7.0]);
    let odd = Dataset::from_environments(vec![Matrix::from_rows(7, 3, rows)]).unwrap();
    let parameters = random_parameters(17, 3, 1, None, false);
    for spec in all_specs(1.0).into_iter().filter(|s| s.estimator == Estimator::Linear) {
        let (a, slopes_a) = evaluate::<f64>(&even, &spec, &parameters).unwrap();
        let (b, slopes_b) = evaluate::<f64>(&odd, &spec, &parameters).unwrap();
        assert_eq!(a, b);
        for ((name, a), (_, b)) in tensors(&slopes_a).into_iter().zip(tensors(&slopes_b)) {
            assert!(relative_error(&b, &a) < 1e-14, "{spec:?} {name}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let data = random_data(18, &[700, 301, 260], 61);
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let pools = [pool(1), pool(2), pool(5)];
    for (_, activation, full) in [SHAPES[0], SHAPES[1], SHAPES[2]] {
        let parameters = random_parameters(19, 61, 3, activation, full).cast::<f32>();
        for spec in all_specs(8.0) {
            let runs = pools.each_ref().map(|pool| {
                let (loss, gradient) = pool.install(|| evaluate::<f32>(&data, &spec, &parameters)).unwrap();
                let bits: Vec<u32> =
                    gradient.tensors().iter().flat_map(|t| t.values.iter().map(|v| v.to_bits())).collect();
                (loss.to_bits(), bits)
            });
            assert!(runs[0] == runs[1] && runs[1] == runs[2], "{spec:?}");
        }
    }
}
