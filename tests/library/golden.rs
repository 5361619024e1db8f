//! Losses and gradients against float64 automatic differentiation of their definitions.

use crate::common::{evaluate, golden_cases, relative_error, tensors};
use skds::engine::Precision;

/// Two float64 evaluations of the same formula by different routes.
const F64_TOLERANCE: f64 = 1e-9;
/// float32 through products and sums of up to a hundred terms.
const F32_TOLERANCE: f64 = 2e-4;

fn check<T: Precision>(tolerance: f64) {
    let cases = golden_cases();
    assert_eq!(cases.len(), 54);
    for case in cases {
        let (loss, gradient) = evaluate::<T>(&case.data(), &case.spec, &case.parameters().cast()).unwrap();
        let mut found = tensors(&gradient);
        found.push(("loss".into(), vec![loss]));
        assert!((case.loss - case.expected().iter().find(|(n, _)| n == "loss").unwrap().1[0]).abs() < 1e-12);
        for (name, expected) in case.expected() {
            let (_, values) =
                found.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no gradient {name}"));
            let error = relative_error(values, &expected);
            assert!(error <= tolerance, "{} {name}: {error:e} above {tolerance:e}", case.name);
        }
    }
}

#[test]
fn f64_matches_automatic_differentiation() {
    check::<f64>(F64_TOLERANCE);
}

#[test]
fn f32_matches_automatic_differentiation() {
    check::<f32>(F32_TOLERANCE);
}

#[test]
fn a_perturbed_gradient_is_rejected() {
    let case = &golden_cases()[10];
    let (_, gradient) = evaluate::<f64>(&case.data(), &case.spec, &case.parameters()).unwrap();
    let (name, mut values) = tensors(&gradient).swap_remove(0);
    let expected = case.expected();
    let (_, expected) = expected.iter().find(|(n, _)| *n == name).unwrap();
    assert!(relative_error(&values, expected) <= F64_TOLERANCE);
    values[1] *= 1.0 + 1e-6;
    assert!(relative_error(&values, expected) > F64_TOLERANCE);
    values[1] = f64::NAN;
    assert!(relative_error(&values, expected).is_nan());
}
