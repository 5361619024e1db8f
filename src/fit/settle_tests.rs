use super::recipe::{CandidateSet, PenaltyStrength, Recipe, Solver};
use super::{PenaltyChoice, Settings};
use crate::kernel::KernelKind;
use crate::objective::Objective;
use crate::{Error, Result};

fn parse(text: &str) -> Result<Settings> {
    let settings: std::result::Result<Settings, _> = toml::from_str(text);
    settings.map_err(|error| Error::invalid(error.to_string()))
}

fn settled(text: &str) -> Recipe {
    parse(text).unwrap().settle().unwrap()
}

#[test]
fn a_value_that_is_given_counts_even_if_it_equals_the_default() {
    assert!(matches!(settled("").solver, Solver::Chosen { candidates: CandidateSet::All, .. }));
    for text in ["lambda = 0.1", "bandwidth = \"auto\"", "penalty = \"both\"", "tune = false"] {
        assert!(matches!(settled(text).solver, Solver::Exact { .. }), "{text}");
    }
    let of_adam =
        ["steps = 20000", "batch = 512", "envs_per_step = 1", "learning_rate = 0.001", "solver = \"adam\""];
    for text in of_adam.into_iter().chain(["estimator = \"linear\"", "model = \"mlp\""]) {
        assert!(matches!(settled(text).solver, Solver::Adam { .. }), "{text}");
    }
}

#[test]
fn what_is_given_fixes_its_part_of_the_choice() {
    let candidate_set = |text: &str| match settled(text).solver {
        Solver::Chosen { candidates, .. } => Some(candidates),
        _ => None,
    };
    for (text, expected) in [
        ("", CandidateSet::All),
        ("solver = \"exact\"", CandidateSet::All),
        ("law = \"diffusion\"", CandidateSet::Diffusions),
        ("law = \"structural\"", CandidateSet::Structural),
        ("objective = \"kds\"", CandidateSet::Kds),
        ("kernel = \"quadratic\"", CandidateSet::Kds),
        ("objective = \"skds\"", CandidateSet::Skds),
        ("kernel = \"rbf\"", CandidateSet::Skds),
        ("estimator = \"u\"", CandidateSet::Skds),
    ] {
        assert_eq!(candidate_set(text), Some(expected), "{text}");
    }
    let by_moments = settled("objective = \"kds\"\nlambda = 0.2").solver;
    assert_eq!(
        by_moments,
        Solver::Moments(PenaltyStrength { penalty: PenaltyChoice::Ingoing, lambda: 0.2, ingoing: None })
    );
    let structural = settled("law = \"structural\"\npenalty = \"both\"").solver;
    assert_eq!(
        structural,
        Solver::Structural(PenaltyStrength { penalty: PenaltyChoice::Both, lambda: 0.1, ingoing: None })
    );
    // Over pairs KDS has one bandwidth and penalty.
    let pairs = settled("objective = \"kds\"\nkernel = \"rbf\"");
    assert!(matches!(pairs.solver, Solver::Exact { .. }) && pairs.objective == Objective::Kds);
    assert!(matches!(settled("objective = \"kds\"\nsteps = 9").solver, Solver::Adam { .. }));
}

#[test]
fn a_recipe_as_settings_settles_to_itself() {
    for text in [
        "",
        "law = \"diffusion\"",
        "law = \"structural\"\nseed = 3",
        "law = \"structural\"\nlambda = 0.3\npenalty = \"none\"",
        "objective = \"kds\"",
        "objective = \"kds\"\nlambda = 0.3\nlearn_scale = true",
        "objective = \"kds\"\nkernel = \"imq-plus\"",
        "objective = \"kds\"\nsteps = 7",
        "objective = \"skds\"",
        "estimator = \"u\"\nkernel = \"rbf\"",
        "lambda = 0.1\nestimator = \"u\"\nstandardize = false",
        "steps = 100\nbandwidth = 2\nseed = 18446744073709551615",
        "model = \"mlp\"\nhidden = 3\nactivation = \"tanh\"\nstabilize = false",
        "model = \"basis\"\nfeatures = \"rbf:3\"\ndiffusion = \"1, self^2\"",
        "objective = \"kds\"\ntargets = \"unknown\"\nlearn_scale = true",
    ] {
        // A seed above 2^63 has no place in TOML.
        let text = text.replace("18446744073709551615", "77");
        let recipe = settled(&text);
        assert_eq!(recipe.to_settings().settle().unwrap(), recipe, "{text}");
        let json = serde_json::to_string(&recipe.to_settings()).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), recipe.to_settings());
    }
    let large = Settings { seed: Some(u64::MAX), ..Settings::default() };
    let json = serde_json::to_string(&large).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), large);
}

#[test]
fn what_cannot_be_meant_together_gets_a_sentence() {
    for (text, piece) in [
        ("steps = 0", "steps is 0, expected at least 1"),
        ("batch = 1", "batch is 1, expected at least 2"),
        ("lambda = -1.0", "lambda is -1"),
        ("learning_rate = nan", "the learning rate is NaN"),
        ("solver = \"exact\"\nsteps = 20000", "steps is given with the exact solver"),
        ("solver = \"exact\"\nestimator = \"linear\"", "the estimator linear is given with the exact solver"),
        (
            "solver = \"exact\"\nmodel = \"mlp\"",
            "the model mlp, expected the model linear, or skds with the model basis",
        ),
        ("law = \"structural\"\nsteps = 5", "steps is given with the law structural"),
        ("law = \"structural\"\nkernel = \"rbf\"", "kernel is given with the law structural"),
        ("law = \"structural\"\nlearn_scale = true", "learn_scale is given with the law structural"),
        ("law = \"diffusion\"\nmodel = \"mlp\"", "law is given with the model mlp"),
        (
            "kernel = \"quadratic\"\nobjective = \"skds\"",
            "the objective skds is given with the kernel quadratic",
        ),
        ("kernel = \"quadratic\"\nbandwidth = 2", "bandwidth is given with the kernel quadratic"),
        ("kernel = \"quadratic\"\nestimator = \"v\"", "estimator is given with the kernel quadratic"),
        ("kernel = \"quadratic\"\nbatch = 20", "batch is given with the kernel quadratic"),
        ("kernel = \"quadratic\"\nmodel = \"basis\"", "the model basis is given with the kernel quadratic"),
        ("objective = \"kds\"\nkernel = \"rbf\"\ntune = true", "tune is given with kds over pairs"),
        ("tune = true\nlambda = 0.1", "lambda is given together with tune"),
        ("tune = true\nsolver = \"adam\"", "tune is given with the solver adam"),
        ("hidden = 3", "hidden is given with the model linear, expected the model mlp"),
        ("features = \"rbf:2\"", "features is given with the model linear, expected the model basis"),
        ("model = \"basis\"\nsteps = 10", "steps is given with the model basis"),
        ("model = \"basis\"\nobjective = \"kds\"", "the objective kds is given with the model basis"),
    ] {
        let sentence = parse(text).unwrap().settle().unwrap_err().to_string();
        assert!(sentence.contains(piece), "{text}: {sentence}");
    }
}

#[test]
fn a_neural_drift_chooses_what_is_not_given() {
    let choice = |text: &str| settled(text).solver.adam().unwrap().choice;
    let (kds, skds) = ((Objective::Kds, KernelKind::Rbf), (Objective::Skds, KernelKind::TiltedRbf));
    for (text, losses) in [
        ("model = \"mlp\"", vec![kds, skds]),
        ("model = \"mlp\"\nsteps = 100", vec![kds, skds]),
        ("model = \"mlp\"\ntune = true", vec![kds, skds]),
        ("model = \"mlp\"\nobjective = \"skds\"", vec![skds]),
        (
            "model = \"mlp\"\nkernel = \"imq-plus\"",
            vec![(Objective::Kds, KernelKind::ImqPlus), (Objective::Skds, KernelKind::ImqPlus)],
        ),
    ] {
        assert_eq!(choice(text).unwrap().losses(), losses, "{text}");
        // What is open stays open in the settings that describe the fit.
        let recipe = settled(text);
        assert_eq!(recipe.to_settings().settle().unwrap(), recipe, "{text}");
    }
    for text in ["lambda = 0.1", "bandwidth = 3", "penalty = \"both\"", "tune = false"] {
        assert_eq!(choice(&format!("model = \"mlp\"\n{text}")), None, "{text}");
    }
    assert_eq!(choice("solver = \"adam\""), None);
    let refused = |text: &str| parse(text).unwrap().settle().unwrap_err().to_string();
    assert!(
        refused("solver = \"adam\"\ntune = true").contains("the model linear, expected the exact solver")
    );
    assert!(
        refused("model = \"mlp\"\nlambda = 1\ntune = true").starts_with("lambda is given together with tune")
    );
    // The penalties that are the default differ by what they are multiplied with.
    let lambda = |text: &str| settled(text).solver.strength().unwrap().lambda;
    assert_eq!(lambda("model = \"mlp\"\nbandwidth = 3"), 0.01);
    assert_eq!(lambda("model = \"mlp\"\nbandwidth = 3\nobjective = \"kds\""), 0.03);
    assert_eq!(lambda("solver = \"adam\""), 0.1);
}
