//! What a job will need, by its settings and by what is known of its data and model: roughly, and before anything is read.

use crate::fit::{AdamRecipe, DriftForm, EnvironmentsPerStep, Solver, considers_pairs};
use crate::model::PenaltyKind;
use crate::model::basis::FeatureChoice;
use crate::objective::Objective;
use crate::predict::{MATCHING_SAMPLES, law_samples};
use crate::sample::{Method, Sampler};
use crate::serve::domain::request::{
    EvaluateRequest, FitRequest, LossRequest, Request, SampleRequest, SimulateRequest,
};
use crate::serve::store::database::{DatasetInfo, ModelInfo};
use crate::solve::{bytes_of_fit, fits_at_once};

/// Jobs of fewer operations are let pass by long ones: about a second or two on a processor.
const SHORT: f64 = 5e10;

/// Memory and work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    pub bytes: f64,
    /// Floating-point operations, or what takes as long.
    pub operations: f64,
}

/// What a request is about: numbers that everything is estimated from.
struct Sizes {
    /// Variables.
    d: f64,
    rows: f64,
    /// Rows of each environment.
    environments: Vec<usize>,
    /// Numbers of the model.
    parameters: f64,
    /// Whether the model has a law in closed form.
    linear: bool,
    /// The data that predictions start from.
    origin: Option<OriginSizes>,
}

/// Rows of data that predictions start from.
struct OriginSizes {
    rows: f64,
    /// Those of its first environment without targets.
    moved: f64,
}

impl Need {
    pub fn of(
        request: &Request,
        data: Option<&DatasetInfo>,
        origin: Option<&DatasetInfo>,
        model: Option<&ModelInfo>,
    ) -> Need {
        let names = data.map(|data| &data.variables).or(model.map(|model| &model.variables));
        let sizes = Sizes {
            d: names.map_or(0, Vec::len) as f64,
            rows: data.map_or(0, |data| data.rows) as f64,
            environments: data.iter().flat_map(|data| &data.environments).map(|e| e.rows).collect(),
            parameters: model.map_or(0, |model| model.parameters) as f64,
            linear: model.is_some_and(|model| model.kind == "linear"),
            origin: origin.map(|origin| OriginSizes {
                rows: origin.rows as f64,
                // Without such an environment the job says so.
                moved: origin.environments.iter().find(|e| e.target_count == 0).map_or(0, |e| e.rows) as f64,
            }),
        };
        match request {
            Request::Fit(fit) => sizes.fit(fit),
            Request::Sample(sample) => sizes.sample(sample),
            Request::Evaluate(evaluate) => sizes.evaluate(evaluate),
            Request::Loss(loss) => sizes.loss(loss),
            Request::Simulate(simulate) => simulation(simulate),
        }
    }

    /// Whether a long job lets it pass.
    pub fn is_short(&self) -> bool {
        self.operations < SHORT
    }
}

impl Sizes {
    /// Samples in f64 and f32, drift and its derivative, work space.
    fn samples(&self) -> f64 {
        32.0 * self.rows * self.d
    }

    fn all_pairs(&self) -> f64 {
        self.environments.iter().map(|n| (*n as f64).powi(2)).sum()
    }

    fn fit(&self, request: &FitRequest) -> Need {
        let d = self.d;
        // What cannot be settled is refused by the service's check, not by its size.
        let Ok(recipe) = request.settings.settle() else { return Need::default() };
        // A number per pair of variables, for as many passes as are kept at once.
        let known = if request.edges.is_empty() { 0.0 } else { 64.0 * d * d };
        if let Solver::Adam { adam: AdamRecipe { steps, batch, envs_per_step, .. }, .. } = &recipe.solver {
            let width = match recipe.form {
                DriftForm::Mlp { hidden, .. } => d * hidden as f64,
                DriftForm::Linear | DriftForm::Basis { .. } => d,
            };
            let environments = match envs_per_step {
                EnvironmentsPerStep::All => self.environments.len(),
                EnvironmentsPerStep::Some(count) => (*count).min(self.environments.len()),
            };
            let rows = *batch as f64 * environments as f64;
            // Parameters, gradient, both moments, and a copy of all for checkpoints; rows of a batch with what is computed
            // of them. A step takes 50 µs at least.
            let bytes = self.samples() + known + 32.0 * d * width + 4.0 * rows * (8.0 * d + 2.0 * width);
            return Need { bytes, operations: f64::from(*steps) * (4.0 * rows * d * width).max(5e6) };
        }
        let features = match &recipe.form {
            DriftForm::Basis { features: FeatureChoice::Polynomial(degree), .. } => {
                (1..=(*degree).min(64)).map(|k| d.powi(k as i32)).sum()
            }
            DriftForm::Basis { features: FeatureChoice::Rbf(count), .. } => d * (1.0 + *count as f64),
            DriftForm::Basis { features: FeatureChoice::File(_), .. }
            | DriftForm::Linear
            | DriftForm::Mlp { .. } => d,
        };
        // Functions that squared noises are made of.
        let noises = match &recipe.form {
            DriftForm::Basis { diffusion, .. } => diffusion.split(',').count() as f64,
            DriftForm::Linear | DriftForm::Mlp { .. } => 0.0,
        };
        let features = features + noises;
        // The problems of the variables for as many fits as run at once, and the functions of the data.
        let tuned = matches!(recipe.solver, Solver::Tuned { .. } | Solver::Chosen { .. });
        let several = tuned || request.bootstrap.is_some();
        let given = recipe.solver.strength().and_then(|strength| strength.penalty.kind());
        let kind = given.unwrap_or(PenaltyKind::Ingoing);
        let (variables, width) = (d as usize, features as usize);
        let at_once = if several { fits_at_once(variables, width) } else { 1 };
        let at_once = at_once.min(rayon::current_num_threads()) as f64;
        let problems = bytes_of_fit(variables, width, kind) * at_once;
        // Fits by moments make no pass over pairs, and beside them SKDS is left out where it takes long.
        let by_pairs = match &recipe.solver {
            Solver::Moments(_) | Solver::Structural(_) => false,
            Solver::Chosen { candidates, .. } => considers_pairs(*candidates, self.d as usize),
            _ => true,
        };
        if !by_pairs {
            return self.by_moments(request, tuned);
        }
        // Bandwidths, penalties at each, as many folds as environments, at most ten; penalty paths take about d³ per variable.
        let folds =
            1.0 + (self.environments.len() as f64).min(if d == features { 10.0 } else { f64::INFINITY });
        let (passes, fits) = if tuned { (5.0, 60.0 * folds) } else { (1.0, 1.0) };
        let times = 1.0 + request.bootstrap.unwrap_or(0) as f64;
        // KDS over pairs: a hundred or two gradients.
        let kds = matches!(recipe.solver, Solver::Exact { .. }) && recipe.objective == Objective::Kds;
        let passes = if kds { 200.0 } else { passes };
        let once = passes * 12.0 * self.all_pairs() * features + fits * 4.0 * d * features.powi(3);
        // Every resample's drift, noise, and shift and scale in each environment are kept until all are there.
        let kept = d * (features + 2.0 + 2.0 * self.environments.len() as f64);
        let kept = 8.0 * request.bootstrap.unwrap_or(0) as f64 * kept;
        let bytes = self.samples() + known + problems + 32.0 * self.rows * features + kept;
        Need { bytes, operations: times * once }
    }

    /// Covariances of ten groups of environments, of those that are fitted to for as many fits as run at once, and some
    /// hundreds of steps of d³ for each of up to ten candidates.
    fn by_moments(&self, request: &FitRequest, chosen: bool) -> Need {
        let (d, threads) = (self.d, rayon::current_num_threads() as f64);
        let environments = self.environments.len() as f64;
        let resamples = request.bootstrap.unwrap_or(0) as f64;
        let kept = 8.0 * resamples * d * (d + 2.0 + 2.0 * environments);
        let bytes = 2.0 * self.samples() + 8.0 * d * (d + environments) * (12.0 + 12.0 * threads) + kept;
        let fits = if chosen { 10.0 * 11.0 } else { 1.0 } + 5.0 * resamples;
        let operations = (1.0 + resamples) * 2.0 * self.rows * d * d + fits * 100.0 * 4.0 * d.powi(3);
        Need { bytes, operations }
    }

    fn sample(&self, request: &SampleRequest) -> Need {
        let (settings, d) = (request.settings(), self.d);
        let exact = self.linear && settings.method != Method::Euler && !settings.nonnegative;
        let (n, drawn) = match &self.origin {
            // The law is looked at twice, at rest and under the intervention.
            Some(origin) => (request.n.map_or(origin.moved, |n| n as f64), law_samples(d as usize)),
            None => (request.samples() as f64, request.samples()),
        };
        let steps = |samples: usize| {
            Sampler::cpu().steps_for(samples, &settings) as f64 * (2.0 * self.parameters + 50.0 * d)
        };
        let laws = if self.origin.is_some() { 2.0 } else { 1.0 };
        let operations = match exact {
            true => 2.0 * n * d * d + laws * 100.0 * d.powi(3),
            false => laws * steps(drawn) + searches(request.set.len()) * steps(MATCHING_SAMPLES),
        };
        // Samples as they are drawn, as they are told of and as they are written; what chains compute at every step; data
        // that is started from, laws, and the map between them.
        let chains = if exact { 0.0 } else { settings.euler.chains.unwrap_or(1024).min(drawn) as f64 };
        let chains = chains * (40.0 * d + 8.0 * self.parameters / d.max(1.0));
        Need { bytes: 24.0 * n * d + chains + self.start(exact), operations }
    }

    /// Memory for the data that predictions start from, for two laws and the map between them.
    fn start(&self, exact: bool) -> f64 {
        let Some(origin) = &self.origin else { return 0.0 };
        let drawn = if exact { 0.0 } else { 32.0 * law_samples(self.d as usize) as f64 * self.d };
        32.0 * origin.rows * self.d + 120.0 * self.d * self.d + drawn
    }

    fn evaluate(&self, request: &EvaluateRequest) -> Need {
        // Distances between all samples of an environment and as many predicted ones, three times; matching them. Rows that
        // are moved are compared as well, and so are two floors.
        let most = self.environments.iter().max().map_or(0.0, |n| *n as f64);
        let simulated = !self.linear || request.method == Method::Euler || request.nonnegative;
        let predictions = if self.origin.is_some() { 4.0 } else { 1.0 };
        let operations = if simulated {
            f64::INFINITY
        } else {
            predictions * (self.all_pairs() * (4.0 * self.d + 2000.0) + 60.0 * self.d.powi(3))
        };
        // Maps of laws that are simulated have a matrix for each environment.
        let maps =
            if simulated && self.origin.is_some() { 16.0 * self.environments.len() as f64 } else { 0.0 };
        let moved = self.origin.as_ref().map_or(0.0, |origin| 32.0 * origin.moved * self.d);
        let start = self.start(!simulated) + moved + maps * self.d * self.d;
        Need { bytes: self.samples() + 32.0 * most * most + start, operations }
    }

    fn loss(&self, request: &LossRequest) -> Need {
        let pairs: f64 = self.environments.iter().map(|n| request.estimator.pairs(*n) as f64).sum();
        let operations = 20.0 * pairs * self.d + 4.0 * self.rows * self.parameters;
        Need { bytes: self.samples() + 32.0 * self.parameters, operations }
    }
}

/// Simulations that a search for the shifts of so many variables takes, at most in the usual case.
fn searches(variables: usize) -> f64 {
    let sweeps = if variables == 1 { 1.0 } else { 4.0 };
    20.0 * sweeps * variables as f64
}

fn simulation(request: &SimulateRequest) -> Need {
    Need { bytes: request.settings.bytes(), operations: request.settings.operations() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::domain::id::ContentId;
    use crate::serve::store::database::EnvironmentInfo;
    use serde_json::{Value, json};

    fn need(kind: &str, rows: usize, d: usize, settings: Value) -> Need {
        let id = ContentId::try_from("a".repeat(64)).unwrap();
        let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
        let environments =
            (0..11).map(|_| EnvironmentInfo { rows, targets: vec![], target_count: 0 }).collect();
        let data = DatasetInfo {
            id: id.clone(),
            name: "data".into(),
            bytes: 0,
            rows: 11 * rows,
            variables: names.clone(),
            environments,
            created: 0.0,
        };
        let model = ModelInfo {
            id,
            kind: "linear".into(),
            variables: names,
            environments: 11,
            parameters: d * d,
            created: 0.0,
        };
        let mut request = json!({ "kind": kind, "dataset": "a".repeat(64) });
        if kind != "fit" {
            request["model"] = "a".repeat(64).into();
        }
        if kind == "sample" || kind == "simulate" {
            request.as_object_mut().unwrap().remove("dataset");
        }
        if kind == "simulate" {
            request.as_object_mut().unwrap().remove("model");
        }
        for (key, value) in settings.as_object().unwrap() {
            request[key] = value.clone();
        }
        let request: Request = serde_json::from_value(request).unwrap();
        let known = |id: Option<&ContentId>| id.map(|_| &data);
        let model = request.model().map(|_| &model);
        Need::of(&request, known(request.dataset()), known(request.origin()), model)
    }

    #[test]
    fn what_takes_seconds_is_short_and_what_takes_minutes_is_not() {
        let exact = json!({ "settings": { "bandwidth": 3, "lambda": 0.1 } });
        let adam = |steps: u32| json!({ "settings": { "solver": "adam", "steps": steps } });
        for (kind, rows, d, settings, short) in [
            ("fit", 1000, 20, json!({}), true),
            ("fit", 1000, 20, exact.clone(), true),
            ("fit", 1000, 200, json!({}), false),
            ("fit", 50_000, 20, exact, false),
            ("fit", 1000, 20, json!({ "bootstrap": 1000 }), false),
            ("fit", 1000, 20, adam(1000), true),
            ("fit", 1000, 20, adam(1_000_000), false),
            ("evaluate", 1000, 20, json!({}), true),
            ("evaluate", 1000, 20, json!({ "method": "euler" }), false),
            ("evaluate", 10_000, 20, json!({}), false),
            ("sample", 1000, 20, json!({ "n": 2000 }), true),
            ("sample", 1000, 20, json!({ "n": 1_000_000, "method": "euler" }), false),
            ("sample", 1000, 20, json!({ "from": "a".repeat(64), "set": { "x1": 1.0 } }), true),
            ("sample", 1000, 1000, json!({ "from": "a".repeat(64) }), false),
            ("evaluate", 1000, 20, json!({ "from": "a".repeat(64) }), false),
            ("loss", 512, 20, json!({}), true),
            ("loss", 50_000, 20, json!({ "estimator": "u" }), false),
            ("simulate", 0, 0, json!({ "settings": { "system": "sergio" } }), true),
            ("simulate", 0, 0, json!({ "settings": { "system": "sergio", "rows": 100_000 } }), false),
            ("simulate", 0, 0, json!({ "settings": { "simulate": "euler" } }), true),
            ("simulate", 0, 0, json!({ "settings": { "simulate": "euler", "euler_thin": 50_000 } }), false),
            (
                "simulate",
                0,
                0,
                json!({ "settings": { "simulate": "euler", "euler_burn_in": 1_000_000 } }),
                false,
            ),
        ] {
            let found = need(kind, rows, d, settings.clone());
            assert_eq!(found.is_short(), short, "{kind} {rows} {d} {settings}: {found:?}");
        }
    }

    #[test]
    fn every_count_is_in_the_estimate() {
        let fit = |settings: Value| json!({ "settings": settings });
        let sergio = |settings: Value| json!({ "settings": { "system": "sergio", "sergio": settings } });
        for (kind, few, many) in [
            ("fit", json!({ "bootstrap": 100 }), json!({ "bootstrap": 100_000 })),
            (
                "fit",
                fit(json!({ "solver": "adam", "batch": 100 })),
                fit(json!({ "solver": "adam", "batch": 1_000_000 })),
            ),
            (
                "fit",
                fit(json!({ "model": "mlp", "hidden": 10 })),
                fit(json!({ "model": "mlp", "hidden": 4096 })),
            ),
            (
                "fit",
                fit(json!({ "model": "basis", "diffusion": "1,x" })),
                fit(json!({ "model": "basis", "diffusion": "1,".repeat(4000) })),
            ),
            ("sample", json!({ "n": 100 }), json!({ "n": 1_000_000 })),
            (
                "sample",
                json!({ "n": 1_000_000, "method": "euler" }),
                json!({ "n": 1_000_000, "method": "euler", "chains": 1_000_000 }),
            ),
            ("sample", json!({ "n": 1000 }), json!({ "n": 1000, "from": "a".repeat(64) })),
            ("simulate", fit(json!({ "rows": 100 })), fit(json!({ "rows": 1_000_000 }))),
            ("simulate", fit(json!({ "dim": 30 })), fit(json!({ "dim": 3000 }))),
            (
                "simulate",
                sergio(json!({ "steps_per_cell": 100 })),
                sergio(json!({ "steps_per_cell": 1_000_000 })),
            ),
            ("simulate", sergio(json!({ "dt": 0.003 })), sergio(json!({ "dt": 1e-9 }))),
            ("simulate", sergio(json!({ "cell_types": 10 })), sergio(json!({ "cell_types": 1000 }))),
        ] {
            let (less, more) = (need(kind, 1000, 20, few), need(kind, 1000, 20, many.clone()));
            assert!(more.bytes > 2.0 * less.bytes, "{many}: {less:?} {more:?}");
        }
    }
}
