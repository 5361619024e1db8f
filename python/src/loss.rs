//! A loss and its gradient, for optimisers of one's own.

use crate::arrays::{NamedArray, entries, named_arrays};
use crate::data::Dataset;
use crate::errors::{parsed, raised};
use crate::model::Model;
use crate::work::{Watch, run};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde::Deserialize;
use skds::engine::{Device, Precision};
use skds::fit::{LossSettings, ModelLoss};
use skds::kernel::{Bandwidth, KernelKind};
use skds::model::Parameters;
use skds::objective::{Estimator, Objective};
use std::collections::BTreeMap;
use std::str::FromStr;

/// A named array: its shape and entries.
type Array = (String, Vec<usize>, Vec<f64>);

/// Which loss, and where it is computed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    objective: Option<String>,
    kernel: Option<String>,
    bandwidth: Option<serde_json::Value>,
    estimator: Option<String>,
    device: Option<String>,
    /// f32 or f64; none for f64 on the CPU and f32 on a GPU.
    precision: Option<String>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    activation: Option<String>,
}

impl Asked {
    fn settings(&self) -> skds::Result<LossSettings> {
        let bandwidth = match &self.bandwidth {
            None | Some(serde_json::Value::Null) => None,
            Some(serde_json::Value::String(text)) => Some(Bandwidth::from_str(text)?),
            Some(other) => Some(Bandwidth::from_str(&other.to_string())?),
        };
        Ok(LossSettings {
            objective: self.objective.as_deref().map(Objective::from_str).transpose()?,
            kernel: self.kernel.as_deref().map(KernelKind::from_str).transpose()?,
            bandwidth,
            estimator: self.estimator.as_deref().map(Estimator::from_str).transpose()?,
            // A user's own optimiser means the numbers that it gave.
            as_is: true,
        })
    }

    /// The model of parameters that Python gave.
    fn model(&self, tensors: &[Array]) -> skds::Result<skds::prelude::Model> {
        let metadata: BTreeMap<String, String> =
            self.activation.iter().map(|name| ("activation".to_owned(), name.clone())).collect();
        Ok(skds::prelude::Model::new(Parameters::from_tensors(tensors, &metadata)?))
    }

    fn is_single(&self, device: &Device) -> skds::Result<bool> {
        match self.precision.as_deref() {
            Some("f32") => Ok(true),
            Some("f64") => Ok(false),
            None => Ok(!matches!(device, Device::Cpu | Device::Auto)),
            Some(other) => {
                Err(skds::Error::invalid(format!("the precision is '{other}', expected f32 or f64")))
            }
        }
    }
}

/// A loss and, if it is wanted, its gradient by every parameter.
#[pyfunction]
#[pyo3(signature = (data, parameters, asked, gradient, model=None))]
pub fn loss<'py>(
    py: Python<'py>,
    data: &Dataset,
    parameters: Vec<(String, Vec<usize>, PyReadonlyArray1<'py, f64>)>,
    asked: &str,
    gradient: bool,
    model: Option<Model>,
) -> PyResult<(f64, Vec<NamedArray<'py>>)> {
    let parameters = parameters
        .iter()
        .map(|(name, shape, values)| Ok((name.clone(), shape.clone(), entries(values)?.to_vec())))
        .collect::<PyResult<Vec<Array>>>()?;
    let asked: Asked = parsed("options of the loss", asked)?;
    let device = Device::from_str(asked.device.as_deref().unwrap_or("cpu")).map_err(raised)?;
    let work = || {
        let model = match &model {
            Some(model) => (*model.inner).clone(),
            None => asked.model(&parameters)?,
        };
        let loss = ModelLoss::new(&model, &asked.settings()?)?;
        loss.parameters.check_fits(data.inner.dim(), data.inner.environments())?;
        match asked.is_single(&device)? {
            true => evaluated::<f32>(&asked, &device, data, &loss, gradient),
            false => evaluated::<f64>(&asked, &device, data, &loss, gradient),
        }
    };
    let (value, gradient) = run(py, &Watch::default(), None, work)?;
    Ok((value, gradient.map_or(Vec::new(), |gradient| named_arrays(py, &gradient))))
}

fn evaluated<T: Precision>(
    asked: &Asked,
    device: &Device,
    data: &Dataset,
    loss: &ModelLoss,
    wants_gradient: bool,
) -> skds::Result<(f64, Option<Parameters<f64>>)> {
    let data = loss.data(&data.inner);
    let spec = loss.spec(&data, asked.seed)?;
    let parameters: Parameters<T> = loss.parameters.cast();
    let mut gradient = wants_gradient.then(|| parameters.zeros_like());
    let mut engine = device.engine::<T>(skds::engine::gpu::DEFAULT_BUDGET)?.load(&data, &spec)?;
    let value = engine.evaluate(&parameters, gradient.as_mut())?;
    let gradient = gradient.map(|gradient| loss.gradient(gradient)).transpose()?.map(|g| g.cast::<f64>());
    Ok((value, gradient))
}
