//! Every gradient against central differences of the loss, in f64, for every objective × kernel × estimator ×
//! model × diffusion.

use crate::common::{
    SHAPES, all_specs, evaluate, random_data, random_parameters, relative_error, tensors, value,
};

/// The step, and the error it leaves: about step² times the third derivative plus rounding over the step.
const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

#[test]
fn gradients_are_slopes() {
    let data = random_data(1, &[5, 4], 3);
    for (shape, activation, full) in SHAPES {
        let parameters = random_parameters(2, 3, 2, activation, full);
        for spec in all_specs(1.4) {
            let (_, gradient) = evaluate::<f64>(&data, &spec, &parameters).unwrap();
            for (t, (name, found)) in tensors(&gradient).into_iter().enumerate() {
                let slopes: Vec<f64> = (0..found.len())
                    .map(|at| {
                        let moved = |by: f64| {
                            let mut moved = parameters.clone();
                            moved.tensors_mut()[t].1[at] += by;
                            value(&data, &spec, &moved)
                        };
                        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
                    })
                    .collect();
                let error = relative_error(&found, &slopes);
                assert!(error < TOLERANCE, "{shape} {spec:?} {name}: {error:e}");
            }
        }
    }
}
