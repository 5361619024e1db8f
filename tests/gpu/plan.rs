//! What a training step costs, by the plan alone: bytes that pass through memory, and workgroups to keep a device busy.

use crate::common::random_parameters;
use skds::engine::LossSpec;
use skds::engine::gpu::Form;
use skds::engine::gpu::plan::{Bounds, DispatchPlan, Ending, Ends};
use skds::engine::gpu::stages::Slot;
use skds::kernel::KernelKind;
use skds::model::Activation;
use skds::objective::{Estimator, Objective};
use std::collections::BTreeSet;

const SPEC: (Objective, KernelKind, Estimator) = (Objective::Skds, KernelKind::TiltedRbf, Estimator::Linear);

/// The form of a model and the plan of its loss on one environment of 512 rows.
fn planned(d: usize, hidden: Option<usize>) -> (Form, DispatchPlan) {
    let form =
        Form { dim: d, environments: 1, hidden: hidden.map(|h| (Activation::Sigmoid, h)), full: false };
    let (objective, kernel, estimator) = SPEC;
    let spec = LossSpec { objective, kernel: kernel.with_bandwidth(1.0).unwrap(), estimator };
    let bounds = Bounds::new(Bounds::PORTABLE_BINDING, 1 << 30);
    let plan = DispatchPlan::new(&[512], &form, &spec, &bounds, 0).unwrap();
    (form, plan)
}

/// From the writing of ∂/∂W to the updated parameters, with both penalties.
fn tail(form: &Form, plan: &DispatchPlan) -> Vec<Ending> {
    let mut all = plan.gradient_endings(form);
    all.extend(plan.endings(form, Ends { outgoing: true, weighted: false }));
    all
}

#[test]
fn a_step_of_2000_variables_moves_at_most_160_megabytes_after_its_products() {
    let (form, plan) = planned(2000, None);
    let all = tail(&form, &plan);
    let bytes: u64 = all.iter().map(Ending::bytes).sum();
    assert!(bytes <= 160_000_000, "{bytes} bytes");
    // Less is impossible: the gradient is written and read, parameters are read for norms, then they and two moments are
    // read and written.
    assert!(bytes >= 9 * 2000 * 2000 * 4, "{bytes} bytes");
}

/// No buffer that a stage binds is left out of the sum.
#[test]
fn all_buffers_of_a_tail_are_counted() {
    for (d, hidden) in [(20, None), (2000, None), (500, Some(8))] {
        let (form, plan) = planned(d, hidden);
        for ending in tail(&form, &plan) {
            let planned = plan.gradient.iter().find(|dispatch| dispatch.stage.name == ending.stage.name);
            let choice = planned.map_or(plan.gradient[0].choice, |dispatch| dispatch.choice);
            let composed = choice.compose(ending.stage).unwrap();
            let bound: BTreeSet<Slot> = composed.slots.into_iter().collect();
            let counted: BTreeSet<Slot> = ending.moved.iter().map(|(slot, _)| *slot).collect();
            let rows = BTreeSet::from([Slot::X, Slot::Work, Slot::Blocks]);
            assert_eq!(&bound - &rows, counted, "{}", composed.label);
        }
    }
}

#[test]
fn stages_have_workgroups_for_a_large_device() {
    for (d, hidden) in [(2000, None), (500, Some(8))] {
        let (form, plan) = planned(d, hidden);
        let mut groups: Vec<(&str, u32)> =
            plan.gradient.iter().map(|dispatch| (dispatch.stage.name, dispatch.job.groups)).collect();
        groups.extend(tail(&form, &plan).iter().map(|ending| (ending.stage.name, ending.groups)));
        groups.push(("draw", plan.draw_groups(0)));
        for name in ["drift", "tilt", "pairs", "adjoint", "backward", "draw", "adam"] {
            let (_, found) = groups.iter().find(|(known, _)| *known == name).unwrap();
            assert!(*found >= 64, "{name} at d = {d}: {found}");
        }
        let (_, norms) = groups.iter().find(|(known, _)| *known == "norms").unwrap();
        assert!(*norms >= 64.min(d as u32 / 16), "norms at d = {d}: {norms}");
    }
}

/// Products take wide tiles where there are enough of them, and split sums over rows where there are few.
#[test]
fn tiles_and_splits_follow_the_size() {
    for (d, hidden, drift, backward, split) in [
        (20, None, false, false, true),
        (200, None, false, false, true),
        (2000, None, false, true, false),
        (500, Some(8), true, true, false),
    ] {
        let (_, plan) = planned(d, hidden);
        let of = |name: &str| plan.gradient.iter().find(|dispatch| dispatch.stage.name == name).unwrap();
        let found = (of("drift").choice.wide, of("backward").choice.wide, of("backward").choice.split);
        assert_eq!(found, (drift, backward, split), "d = {d}");
        assert_eq!(of("backward").job.splits > 1, split);
        assert_eq!(of("reduce").job.weight_groups > 0, split);
        assert_eq!(plan.sizes.partials > 0, split);
    }
}

/// The device's rows of an MLP: the first units of all variables, then the second ones, so that a quad is of neighbours.
#[test]
fn units_of_neighbouring_variables_lie_side_by_side() {
    let parameters = random_parameters(1, 6, 2, Some(Activation::Tanh), false);
    let form = Form::of(&parameters, 2).unwrap();
    let (_, hidden) = form.hidden.unwrap();
    for name in ["hidden_biases", "output_weights"] {
        let place = form.place(name).unwrap();
        for unit in 0..hidden {
            for variable in 0..6 {
                let here = place.row(variable * hidden + unit);
                assert_eq!(here, place.row(0) + unit * 8 + variable);
            }
        }
    }
    let (weights, biases) = (form.place("hidden_weights").unwrap(), form.place("hidden_biases").unwrap());
    for row in 0..6 * hidden {
        assert_eq!((weights.row(row) - weights.row(0)) / 8, biases.row(row) - biases.row(0));
    }
}
