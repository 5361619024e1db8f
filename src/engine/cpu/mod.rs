//! The CPU engine: the reference in f64, and the default in f32 where there is no GPU.
//!
//! Work is cut into tasks by shape alone and sums are taken in a fixed order, so the same input gives the same
//! bits whatever the number of threads.

mod all_pairs;
mod backward;
mod diffusion;
mod diffusion_product;
mod drift;
mod outer;
mod pairs;
mod reduce;
mod rows;
mod tilt;
mod training;

pub use training::CpuTraining;

use crate::data::Dataset;
use crate::engine::{Engine, Loss, LossSpec};
use crate::kernel::{Profile, tilt as tilt_of, with_profile};
use crate::model::Parameters;
use crate::numeric::tasks;
use crate::objective::{Estimator, Kds, Objective, PairTerm, Skds};
use crate::{Error, Progress, Result, Scalar};
use diffusion::Diffusion;
use drift::{DriftStage, Inputs, stage_of};
use rows::Rows;
use std::ops::Range;
use std::sync::Arc;

/// Evaluates on the threads of the current rayon pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuEngine;

impl<T: Precision> Engine<T> for CpuEngine {
    fn device(&self) -> String {
        "cpu".into()
    }

    fn load(&self, data: &Dataset, spec: &LossSpec) -> Result<Box<dyn Loss<T>>> {
        Ok(T::loss(data, spec))
    }
}

/// A precision that the engine is compiled for.
///
/// Its one function is not generic, so the stages for every kernel, loss and instruction set are compiled once, in this crate,
/// and not again in every program that evaluates a loss.
pub trait Precision: Scalar {
    #[doc(hidden)]
    fn loss(data: &Dataset, spec: &LossSpec) -> Box<dyn Loss<Self>>;
}

macro_rules! compile_for {
    ($($float:ty),+) => {
        $(impl Precision for $float {
            fn loss(data: &Dataset, spec: &LossSpec) -> Box<dyn Loss<$float>> {
                Box::new(CpuLoss::<$float>::new(data, *spec))
            }
        })+
    };
}

compile_for!(f32, f64);

/// The samples in this precision, with what kernels need to know of each.
struct Samples<T> {
    x: Rows<T>,
    offsets: Vec<usize>,
    /// (1 + |x|²)^−½.
    omega: Vec<T>,
    /// 1 / (1 + |x|²).
    tau: Vec<T>,
    /// The mean of each environment, padded.
    centres: Vec<Vec<T>>,
}

impl<T: Scalar> Samples<T> {
    fn new(data: &Dataset) -> Self {
        let source = data.samples();
        let mut x = Rows::zeros(source.rows(), data.dim());
        let (mut omega, mut tau) = (Vec::new(), Vec::new());
        for i in 0..source.rows() {
            for (out, value) in x.row_mut(i).iter_mut().zip(source.row(i)) {
                *out = T::from_f64(*value);
            }
            let square: f64 = source.row(i).iter().map(|v| v * v).sum();
            omega.push(T::from_f64(tilt_of(square)));
            tau.push(T::from_f64(1.0 / (1.0 + square)));
        }
        let centres = (0..data.environments())
            .map(|e| {
                let mut centre = vec![T::ZERO; x.stride()];
                centre.iter_mut().zip(data.means(e)).for_each(|(out, mean)| *out = T::from_f64(mean));
                centre
            })
            .collect();
        Samples { x, offsets: data.offsets().to_vec(), omega, tau, centres }
    }

    fn environments(&self) -> usize {
        self.offsets.len() - 1
    }

    fn rows(&self, e: usize) -> Range<usize> {
        self.offsets[e]..self.offsets[e + 1]
    }

    fn largest_environment(&self) -> usize {
        (0..self.environments()).map(|e| self.rows(e).len()).max().unwrap_or(0)
    }

    fn centre(&self, e: usize) -> &[T] {
        &self.centres[e]
    }
}

/// Buffers through which the stages pass results on. They are kept between evaluations.
struct StageBuffers<T> {
    /// b, after `tilt` b̃.
    b: Rows<T>,
    /// ∂loss/∂b̃, after `untilt` ∂loss/∂b.
    b_bar: Rows<T>,
    /// [`crate::objective::Dots::rest`] of each sample.
    rest: Vec<T>,
    rest_bar: Vec<T>,
    /// The MLP's activations.
    hidden: Vec<T>,
    /// Where `backward` transposes.
    space: Vec<T>,
    full_tilt: Option<tilt::FullTilt<T>>,
    full_pairs: pairs::FullPairs<T>,
    all_pairs: Option<all_pairs::AllPairs<T>>,
}

/// The loss on one dataset in precision `T`.
struct CpuLoss<T> {
    spec: LossSpec,
    samples: Samples<T>,
    work: StageBuffers<T>,
    environment_losses: Vec<f64>,
    progress: Arc<Progress>,
}

impl<T: Scalar> CpuLoss<T> {
    fn new(data: &Dataset, spec: LossSpec) -> Self {
        CpuLoss::of(Samples::new(data), spec)
    }

    fn of(samples: Samples<T>, spec: LossSpec) -> Self {
        let (n, d) = (samples.x.all().len(), samples.x.dim());
        let work = StageBuffers {
            b: Rows::zeros(n, d),
            b_bar: Rows::zeros(n, d),
            rest: vec![T::ZERO; n],
            rest_bar: vec![T::ZERO; n],
            hidden: Vec::new(),
            space: Vec::new(),
            full_tilt: None,
            full_pairs: pairs::FullPairs::default(),
            all_pairs: None,
        };
        let environment_losses = vec![0.0; samples.environments()];
        CpuLoss { spec, samples, work, environment_losses, progress: Arc::default() }
    }

    /// Roughly how many multiplications one evaluation takes.
    fn operations(&self, stage: &dyn DriftStage<T>) -> usize {
        let (n, d) = (self.samples.x.all().len(), self.samples.x.dim());
        let pairs = usize::try_from(Loss::<T>::pairs(self)).unwrap_or(usize::MAX);
        (2 * n * d * stage.width()).saturating_add(pairs.saturating_mul(8 * d))
    }

    /// All stages, with kernel and objective known at compile time.
    fn run<P: Profile<T>, O: PairTerm>(
        &mut self,
        profile: P,
        parameters: &Parameters<T>,
        stage: &dyn DriftStage<T>,
        mut gradient: Option<&mut Parameters<T>>,
    ) -> Result<f64> {
        let CpuLoss { spec, samples, work, environment_losses, progress } = self;
        // `evaluate` checks at the end whether to stop.
        let _ = progress.set(0);
        let inputs = Inputs::new(parameters, &samples.x, &samples.offsets);
        stage.drift(&inputs, &mut work.b, &mut work.hidden);
        if let Some(gradient) = &mut gradient {
            gradient.noise.tensor_mut().1.fill(T::ZERO);
        }
        let environments = samples.environments();
        for e in 0..environments {
            let diffusion = Diffusion::new(parameters, e)?;
            if P::TILTED {
                tilt::tilt::<T, P, O>(samples, e, &diffusion, work);
            }
            let (loss, mut adjoint) = match spec.estimator {
                Estimator::Linear => pairs::pairs::<T, P, O>(profile, samples, e, &diffusion, work),
                estimator => all_pairs::all_pairs::<T, P, O>(
                    profile, estimator, samples, e, &diffusion, work, progress,
                ),
            };
            environment_losses[e] = loss * environments as f64;
            if let Some(gradient) = &mut gradient {
                if P::TILTED {
                    tilt::untilt::<T, P, O>(samples, e, &diffusion, work, &mut adjoint);
                }
                diffusion.backward(&adjoint, e, gradient);
            }
        }
        if let Some(gradient) = gradient {
            let (hidden, space) = (&mut work.hidden, &mut work.space);
            let sums = stage.backward(&inputs, &work.b_bar, hidden, space, &mut gradient.drift)?;
            backward::constants(&sums, gradient);
        }
        Ok(environment_losses.iter().sum::<f64>() / environments as f64)
    }
}

impl<T: Scalar> Loss<T> for CpuLoss<T> {
    fn evaluate(&mut self, parameters: &Parameters<T>, gradient: Option<&mut Parameters<T>>) -> Result<f64> {
        parameters.check_fits(self.samples.x.dim(), self.samples.environments())?;
        if let Some(gradient) = &gradient {
            gradient.check_shape_of(parameters)?;
        }
        let (objective, kernel) = (self.spec.objective, self.spec.kernel);
        let stage = stage_of(&parameters.drift)?;
        let loss = tasks::enter(self.operations(stage), || {
            with_profile!(kernel, T, |profile| match objective {
                Objective::Skds => self.run::<_, Skds>(profile, parameters, stage, gradient),
                Objective::Kds => self.run::<_, Kds>(profile, parameters, stage, gradient),
            })
        })?;
        self.progress.check()?;
        if let Some(e) = self.environment_losses.iter().position(|loss| !loss.is_finite()) {
            return Err(Error::NonFinite(format!(
                "the loss of environment {e} is {}, expected a finite number: are the parameters or samples too large for {}?",
                self.environment_losses[e],
                T::NAME
            )));
        }
        // Large ones may be finite and their sum not.
        if !loss.is_finite() {
            return Err(Error::NonFinite(format!(
                "the mean of the losses is {loss}, expected a finite number"
            )));
        }
        Ok(loss)
    }

    fn environment_losses(&self) -> &[f64] {
        &self.environment_losses
    }

    fn pairs(&self) -> u64 {
        (0..self.samples.environments()).map(|e| self.spec.estimator.pairs(self.samples.rows(e).len())).sum()
    }

    fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }
}
