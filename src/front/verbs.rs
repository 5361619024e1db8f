//! What a model can be asked for.

use super::{Do, Prediction};
use crate::data::Dataset;
use crate::engine::Device;
use crate::engine::gpu::DEFAULT_BUDGET;
use crate::evaluate::{Evaluation, evaluate};
use crate::graph::Graph;
use crate::model::Model;
use crate::predict::{Origin, Start, predicted};
use crate::sample::{Method, SampleSettings, Sampler};
use crate::{Progress, Result};
use std::sync::Arc;

/// How a question is answered: [`Model::predict`], [`Model::sample`] and [`Model::evaluate`] use the default, their
/// `_with` variants the options they are given.
///
/// ```
/// use skds::prelude::*;
///
/// let options = Options::new().seed(7).nonnegative();
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    settings: SampleSettings,
    seed: u64,
    device: Device,
    progress: Option<Arc<Progress>>,
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// Seed 0, on the CPU: exact draws where the model is linear, otherwise simulations with their usual step.
    pub fn new() -> Self {
        Options { settings: SampleSettings::default(), seed: 0, device: Device::Cpu, progress: None }
    }

    /// The seed that every random choice follows from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How samples are drawn.
    pub fn sampling(mut self, settings: SampleSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Keeps every variable at or above 0, as for counts and concentrations.
    pub fn nonnegative(mut self) -> Self {
        self.settings.nonnegative = true;
        self
    }

    /// Where simulations run; exact draws always run on the CPU.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// A counter that the work raises and that can stop it.
    pub fn progress(mut self, progress: Arc<Progress>) -> Self {
        self.progress = Some(progress);
        self
    }

    fn sampler(&self) -> Result<Sampler> {
        // Only simulations use a GPU, so otherwise none is looked for.
        Ok(match self.settings.method {
            Method::Exact => Sampler::cpu(),
            Method::Auto | Method::Euler => Sampler::with_gpu(self.device.gpu::<f32>(DEFAULT_BUDGET)?),
        })
    }

    fn counter(&self) -> Arc<Progress> {
        self.progress.clone().unwrap_or_default()
    }
}

/// The verbs of the front door.
impl Model {
    /// The effects of variables on each other, strongest first.
    pub fn effects(&self) -> Result<Graph> {
        Graph::of(self)
    }

    /// What happens to observed rows: those of the first environment of `data` without targets, moved by what the model
    /// says the intervention changes.
    ///
    /// ```
    /// use skds::prelude::*;
    /// # let rows = Matrix::from_fn(200, 2, |i, j| ((7 * i + 3 * j) as f64).sin());
    /// # let data = Dataset::from_environments(vec![rows])?;
    /// # let model = Fit::new().lambda(0.1).fit(&data)?;
    /// let prediction = model.predict(&data, &Do::set("x0", 2.0))?;
    /// assert!((prediction.mean("x0")? - 2.0).abs() < 1e-9);
    /// let (low, high) = prediction.interval("x1", 0.9)?;
    /// assert!(low < high);
    /// # Ok::<(), skds::Error>(())
    /// ```
    pub fn predict(&self, data: &Dataset, action: &Do) -> Result<Prediction> {
        self.predict_with(data, action, &Options::new())
    }

    /// [`predict`](Self::predict) with options.
    pub fn predict_with(&self, data: &Dataset, action: &Do, options: &Options) -> Result<Prediction> {
        self.answer(Start::Data(Origin::of(self, data)?), action, options)
    }

    /// `rows` samples of the model's own stationary law under an intervention.
    pub fn sample(&self, rows: usize, action: &Do) -> Result<Prediction> {
        self.sample_with(rows, action, &Options::new())
    }

    /// [`sample`](Self::sample) with options.
    pub fn sample_with(&self, rows: usize, action: &Do, options: &Options) -> Result<Prediction> {
        self.answer(Start::Law(rows), action, options)
    }

    /// How well the model predicts each environment of `test`, told only which variables were intervened on and their
    /// means.
    pub fn evaluate(&self, test: &Dataset) -> Result<Evaluation> {
        self.evaluate_with(test, None, &Options::new())
    }

    /// [`evaluate`](Self::evaluate) with options. With `train`, its observational rows are moved too, and both are compared
    /// with two floors that need no model: no effect, and additive effects.
    pub fn evaluate_with(
        &self,
        test: &Dataset,
        train: Option<&Dataset>,
        options: &Options,
    ) -> Result<Evaluation> {
        let progress = options.counter();
        evaluate(&options.sampler()?, self, test, train, &options.settings, options.seed, &progress)
    }

    fn answer(&self, start: Start, action: &Do, options: &Options) -> Result<Prediction> {
        let treatment = action.treatment(self)?;
        let (sampler, progress) = (options.sampler()?, options.counter());
        let rows = predicted(&sampler, self, &start, &treatment, &options.settings, options.seed, &progress)?;
        let before = match start {
            Start::Data(origin) => Some(origin.means),
            Start::Law(_) => None,
        };
        Ok(Prediction::new(self.names.clone(), rows, before))
    }
}
