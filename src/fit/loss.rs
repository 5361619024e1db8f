//! The loss of a model: with the settings of its fit, unless others are given.

use super::{EstimatorChoice, KernelChoice, Method};
use crate::data::{Dataset, Standardization};
use crate::engine::LossSpec;
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::{Model, Parameters};
use crate::objective::{Estimator, Objective};
use crate::{Error, Result, Scalar};
use serde_json::Value;
use std::borrow::Cow;
use std::str::FromStr;

/// The settings of a loss, as far as they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSettings {
    /// The loss.
    pub objective: Option<Objective>,
    /// The kernel.
    pub kernel: Option<KernelKind>,
    /// Its bandwidth, in the units of the evaluation: standard deviations if the fit standardised its data.
    pub bandwidth: Option<Bandwidth>,
    /// The pairs.
    pub estimator: Option<Estimator>,
    /// Whether the data stays as it is although the fit standardised it.
    pub as_is: bool,
}

impl LossSettings {
    /// The settings that a model's fit used, as far as its file holds them. Parameters that nobody fitted have none.
    ///
    /// KDS by moments has no kernel over pairs, so that only its objective is known.
    pub fn of(model: &Model) -> Result<LossSettings> {
        let mut settings = LossSettings {
            objective: stored(model, "objective")?,
            kernel: stored::<KernelChoice>(model, "kernel")?.and_then(KernelChoice::kind),
            bandwidth: stored(model, "bandwidth")?,
            estimator: match stored(model, "estimator")? {
                Some(EstimatorChoice::Linear) => Some(Estimator::Linear),
                Some(EstimatorChoice::U) => Some(Estimator::U),
                Some(EstimatorChoice::V) => Some(Estimator::V),
                Some(EstimatorChoice::Auto) | None => None,
            },
            as_is: false,
        };
        match model.settings.get("chosen") {
            // One bandwidth was chosen for a given loss.
            Some(chosen @ Value::Object(_)) => settings.bandwidth = number(chosen).or(settings.bandwidth),
            // One of several methods was chosen; averages of several have no loss.
            Some(Value::Array(chosen)) if chosen.len() == 1 => {
                match chosen[0]["method"].as_str().map(Method::from_str).transpose()? {
                    Some(Method::Kds) => settings.objective = Some(Objective::Kds),
                    Some(Method::Skds) => {
                        settings.objective = Some(Objective::Skds);
                        // What a choice takes if nothing is said.
                        settings.kernel = settings.kernel.or(Some(KernelKind::TiltedRbf));
                        settings.estimator = settings.estimator.or(Some(Estimator::V));
                        settings.bandwidth = number(&chosen[0]);
                    }
                    Some(Method::Structural | Method::Nothing) | None => {}
                }
            }
            _ => {}
        }
        Ok(settings)
    }
}

/// A setting of the model's fit, by the name that files give it.
fn stored<T: FromStr<Err = Error>>(model: &Model, name: &str) -> Result<Option<T>> {
    let text = match model.settings.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let wrong = |error: Error| Error::invalid(format!("the model's setting {name} cannot be read: {error}"));
    text.parse().map(Some).map_err(wrong)
}

fn number(chosen: &Value) -> Option<Bandwidth> {
    chosen["bandwidth"].as_f64().map(Bandwidth::Value)
}

/// The loss of a model, in the units of its fit.
///
/// ```
/// use skds::data::Dataset;
/// use skds::fit::{LossSettings, ModelLoss, Settings, fit};
/// use skds::kernel::KernelKind;
/// use skds::Matrix;
///
/// let samples = Matrix::from_fn(64, 2, |i, j| ((7 * i + 3 * j) as f64).sin());
/// let data = Dataset::from_environments(vec![samples])?;
/// let (model, _) = fit(&data, &Settings { lambda: Some(0.1), ..Settings::default() })?;
/// let loss = ModelLoss::new(&model, &LossSettings::default())?;
/// assert_eq!(loss.kernel, KernelKind::TiltedRbf);
/// assert_eq!(loss.from_model, ["objective", "kernel", "bandwidth", "estimator"]);
/// let (data, seed) = (loss.data(&data), 0);
/// let spec = loss.spec(&data, seed)?;
/// assert!(spec.kernel.bandwidth().is_some());
/// # Ok::<(), skds::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelLoss {
    /// The loss.
    pub objective: Objective,
    /// The kernel.
    pub kernel: KernelKind,
    /// Its bandwidth.
    pub bandwidth: Bandwidth,
    /// The pairs.
    pub estimator: Estimator,
    /// The names of the settings that the model's fit gave.
    pub from_model: Vec<&'static str>,
    /// The model's parameters, in the units of the evaluation.
    pub parameters: Parameters<f64>,
    /// Means and deviations that the data is standardised by.
    units: Option<Standardization>,
    /// Maps the model's own parameters to those of the evaluation, if they differ.
    converted: Option<Standardization>,
}

impl ModelLoss {
    /// The loss of `model` with the settings `given`; what they leave open comes from the model's fit, and then from the
    /// defaults: SKDS, the RBF kernel with the bandwidth `auto`, and the linear estimator.
    pub fn new(model: &Model, given: &LossSettings) -> Result<ModelLoss> {
        model.check_has_loss()?;
        if given.as_is && model.standardization.is_some() {
            return Err(Error::invalid(
                "the model's parameters are in standard units, expected the data's for a loss on data as it is",
            ));
        }
        let fitted = LossSettings::of(model)?;
        let mut from_model = Vec::new();
        let mut of_model = |name, is_given: bool, is_fitted: bool| {
            if !is_given && is_fitted {
                from_model.push(name);
            }
        };
        of_model("objective", given.objective.is_some(), fitted.objective.is_some());
        of_model("kernel", given.kernel.is_some(), fitted.kernel.is_some());
        // A bandwidth is about its kernel: it suits no other.
        let same_kernel = given.kernel.is_none_or(|kernel| Some(kernel) == fitted.kernel);
        let bandwidth = fitted.bandwidth.filter(|_| same_kernel);
        of_model("bandwidth", given.bandwidth.is_some(), bandwidth.is_some());
        of_model("estimator", given.estimator.is_some(), fitted.estimator.is_some());
        let inside = if given.as_is { Cow::Borrowed(model) } else { model.in_standard_units() };
        Ok(ModelLoss {
            objective: given.objective.or(fitted.objective).unwrap_or(Objective::Skds),
            kernel: given.kernel.or(fitted.kernel).unwrap_or(KernelKind::Rbf),
            bandwidth: given.bandwidth.or(bandwidth).unwrap_or(Bandwidth::Auto),
            estimator: given.estimator.or(fitted.estimator).unwrap_or(Estimator::Linear),
            from_model,
            parameters: inside.parameters.clone(),
            units: inside.standardization.clone(),
            converted: match (&model.standardization, &inside.standardization) {
                (None, Some(reference)) => Some(reference.inverse()),
                _ => None,
            },
        })
    }

    /// Whether the evaluation is in standard units.
    pub fn is_standardized(&self) -> bool {
        self.units.is_some()
    }

    /// The data in the units of the evaluation.
    pub fn data<'a>(&self, data: &'a Dataset) -> Cow<'a, Dataset> {
        match &self.units {
            Some(units) => Cow::Owned(units.apply(data)),
            None => Cow::Borrowed(data),
        }
    }

    /// What is evaluated on `data`, which is in the units of the evaluation; random choices follow from `seed`.
    pub fn spec(&self, data: &Dataset, seed: u64) -> Result<LossSpec> {
        let kernel = match self.kernel {
            kind if kind.has_bandwidth() => kind.with_bandwidth(self.bandwidth.resolve(data, seed)?)?,
            // There is nothing to look for in the data.
            kind => kind.with_bandwidth(1.0)?,
        };
        Ok(LossSpec { objective: self.objective, kernel, estimator: self.estimator })
    }

    /// The gradient by the model's own parameters, given the one by [`parameters`](Self::parameters).
    pub fn gradient<T: Scalar>(&self, gradient: Parameters<T>) -> Result<Parameters<T>> {
        match &self.converted {
            Some(units) => Ok(gradient.cast::<f64>().gradient_before(units)?.cast()),
            None => Ok(gradient),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{Settings, fit};
    use crate::model::Noise;
    use crate::{Matrix, Progress};
    use serde_json::json;

    fn data() -> Dataset {
        let wave = |a: f64, b: f64| ((a * 7.3 + b * 1.7).sin() + 0.3 * (a * b).cos()) * (1.0 + b);
        let rows = |e: f64| Matrix::from_fn(60, 3, |i, j| 20.0 + 5.0 * e + wave(i as f64 + e, j as f64));
        let targets = Matrix::from_fn(2, 3, |e, j| e == 1 && j == 0);
        Dataset::from_environments(vec![rows(0.0), rows(0.4)]).unwrap().with_targets(targets).unwrap()
    }

    fn fitted(settings: Settings) -> Model {
        fit(&data(), &settings).unwrap().0
    }

    #[test]
    fn what_is_not_given_comes_from_the_fit_and_then_from_the_defaults() {
        let model = fitted(Settings {
            bandwidth: Some(Bandwidth::Value(2.5)),
            kernel: Some(KernelChoice::Pairs(KernelKind::ImqPlus)),
            estimator: Some(EstimatorChoice::U),
            ..Settings::default()
        });
        let loss = ModelLoss::new(&model, &LossSettings::default()).unwrap();
        assert_eq!((loss.kernel, loss.estimator), (KernelKind::ImqPlus, Estimator::U));
        assert_eq!((loss.objective, loss.bandwidth), (Objective::Skds, Bandwidth::Value(2.5)));
        let given = LossSettings {
            objective: Some(Objective::Kds),
            estimator: Some(Estimator::V),
            ..LossSettings::default()
        };
        let loss = ModelLoss::new(&model, &given).unwrap();
        assert_eq!((loss.objective, loss.estimator), (Objective::Kds, Estimator::V));
        assert_eq!(loss.from_model, ["kernel", "bandwidth"]);
        // A bandwidth that was chosen for one kernel is nothing to another.
        let other = LossSettings { kernel: Some(KernelKind::Rbf), ..LossSettings::default() };
        assert_eq!(ModelLoss::new(&model, &other).unwrap().bandwidth, Bandwidth::Auto);
        let bare = Model::new(model.parameters.clone());
        let loss = ModelLoss::new(&bare, &LossSettings::default()).unwrap();
        assert!(loss.from_model.is_empty() && !loss.is_standardized());
        assert_eq!((loss.kernel, loss.bandwidth), (KernelKind::Rbf, Bandwidth::Auto));
    }

    #[test]
    fn what_a_choice_has_chosen_counts_as_its_settings() {
        let mut model = fitted(Settings { lambda: Some(0.1), ..Settings::default() });
        let of = |model: &Model| LossSettings::of(model).unwrap();
        model.settings = serde_json::from_value(json!({
            "solver": "exact", "tune": true,
            "chosen": [{ "method": "skds", "bandwidth": 1.25, "lambda": 0.3, "weight": 1.0 }],
        }))
        .unwrap();
        let expected = LossSettings {
            objective: Some(Objective::Skds),
            kernel: Some(KernelKind::TiltedRbf),
            bandwidth: Some(Bandwidth::Value(1.25)),
            estimator: Some(Estimator::V),
            as_is: false,
        };
        assert_eq!(of(&model), expected);
        model.settings.insert("chosen".into(), json!([{ "method": "kds", "bandwidth": null }]));
        let expected = LossSettings { objective: Some(Objective::Kds), ..LossSettings::default() };
        assert_eq!(of(&model), expected);
        let by_moments =
            fitted(Settings { objective: Some(Objective::Kds), lambda: Some(0.1), ..Settings::default() });
        assert_eq!(of(&by_moments), expected);
        model.settings.insert("kernel".into(), "laplace".into());
        let sentence = LossSettings::of(&model).unwrap_err().to_string();
        assert!(
            sentence.starts_with("the model's setting kernel cannot be read: unknown kernel 'laplace'"),
            "{sentence}"
        );
    }

    #[test]
    fn the_loss_of_a_fit_is_found_again() {
        use crate::engine::Engine;
        for &kind in KernelKind::ALL {
            let (kernel, estimator) = (KernelChoice::Pairs(kind), EstimatorChoice::V);
            let settings = Settings {
                lambda: Some(0.05),
                kernel: Some(kernel),
                estimator: Some(estimator),
                stabilize: Some(false),
                ..Settings::default()
            };
            let data = data();
            let found = crate::fit::PreparedFit::new(&data, &settings)
                .unwrap()
                .solve(None, &Progress::default())
                .unwrap();
            let loss = ModelLoss::new(&found.model, &LossSettings::default()).unwrap();
            assert!(loss.is_standardized());
            let standard = loss.data(&data);
            let spec = loss.spec(&standard, 0).unwrap();
            let mut again = Engine::<f64>::load(&crate::engine::cpu::CpuEngine, &standard, &spec).unwrap();
            let value = again.evaluate(&loss.parameters, None).unwrap();
            let expected = found.loss.unwrap();
            assert!((value - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{value} {expected}");
        }
    }

    #[test]
    fn gradients_are_by_the_parameters_of_the_file() {
        use crate::engine::Engine;
        let linear = fitted(Settings { lambda: Some(0.05), ..Settings::default() });
        let network = fitted(Settings {
            model: Some(crate::fit::ModelKind::Mlp),
            hidden: Some(2),
            steps: Some(3),
            batch: Some(8),
            ..Settings::default()
        });
        let mut full = linear.clone();
        full.parameters.noise = Noise::Full {
            noise: Matrix::from_fn(3, 3, |i, j| if i == j { 2.0 } else { 0.3 * (i + 2 * j) as f64 }),
        };
        let data = data();
        for model in [linear, network, full] {
            let value = |model: &Model| {
                let loss = ModelLoss::new(model, &LossSettings::default()).unwrap();
                let standard = loss.data(&data);
                let spec = loss.spec(&standard, 0).unwrap();
                let mut engine =
                    Engine::<f64>::load(&crate::engine::cpu::CpuEngine, &standard, &spec).unwrap();
                let mut gradient = loss.parameters.zeros_like();
                let value = engine.evaluate(&loss.parameters, Some(&mut gradient)).unwrap();
                (value, loss.gradient(gradient).unwrap())
            };
            let (_, gradient) = value(&model);
            let names: Vec<(&str, usize)> =
                gradient.tensors().iter().map(|tensor| (tensor.name, tensor.values.len())).collect();
            for (t, (name, count)) in names.into_iter().enumerate() {
                for k in [0, count / 2, count - 1] {
                    let moved = |by: f64| {
                        let mut model = model.clone();
                        model.parameters.tensors_mut()[t].1[k] += by;
                        value(&model).0
                    };
                    let step = 1e-5;
                    let slope = (moved(step) - moved(-step)) / (2.0 * step);
                    let found = gradient.tensors()[t].values[k];
                    assert!(
                        (found - slope).abs() <= 1e-5 * (1.0 + slope.abs()),
                        "{name} {k}: {found} {slope}"
                    );
                }
            }
        }
    }

    #[test]
    fn parameters_in_standard_units_need_data_in_them() {
        let mut model = fitted(Settings { lambda: Some(0.1), ..Settings::default() });
        let as_is = LossSettings { as_is: true, ..LossSettings::default() };
        assert!(!ModelLoss::new(&model, &as_is).unwrap().is_standardized());
        model.standardization = model.reference.take();
        assert!(ModelLoss::new(&model, &as_is).unwrap_err().to_string().contains("are in standard units"));
        assert!(model.parameters.drift.is_linear());
    }
}
