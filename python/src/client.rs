//! A service that does the work.

use crate::data::Dataset;
use crate::errors::{parsed, raised};
use crate::model::Model;
use crate::work::{Watch, run};
use pyo3::prelude::*;
use serde_json::{Value, json};
use skds::client::{Event, RemoteFit};
use skds::engine::Device;
use skds::fit::Edge;
use std::str::FromStr;

/// The parts of a job that its progress counts.
const PARTS: u64 = 1000;

/// A service.
#[pyclass(frozen, module = "skds._skds")]
pub struct Client {
    inner: skds::client::Client,
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (url, token=None))]
    fn new(url: &str, token: Option<String>) -> PyResult<Self> {
        Ok(Client { inner: skds::client::Client::new(url, token).map_err(raised)? })
    }

    /// Fits a model on the service: the model, and a report as JSON.
    #[pyo3(signature = (data, name, settings, edges=None, bootstrap=None, device=None, progress=None))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn fit(
        &self,
        py: Python<'_>,
        data: &Dataset,
        name: &str,
        settings: &str,
        edges: Option<&str>,
        bootstrap: Option<usize>,
        device: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Model, String)> {
        let settings = parsed("settings", settings)?;
        let edges: Vec<Edge> = edges.map_or(Ok(Vec::new()), |edges| parsed("edges", edges))?;
        let device = Device::from_str(device.unwrap_or("auto")).map_err(raised)?;
        let fit = RemoteFit { settings, edges, bootstrap, device };
        let watch = Watch::default();
        let work = || {
            let mut listen = |event: Event<'_>| {
                if let Event::Progress(text) = event {
                    let value: Value = serde_json::from_str(text).unwrap_or_default();
                    let share = value["share"].as_f64().unwrap_or(0.0);
                    watch.note((share * PARTS as f64) as u64, PARTS, value["loss"].as_f64());
                }
                // The job goes on; only this side stops to listen.
                if watch.is_stopped() { Err(skds::Error::Stopped) } else { Ok(()) }
            };
            self.inner.fit((&data.inner, name), fit, &mut listen)
        };
        let (model, result) = run(py, &watch, progress, work)?;
        let report = json!({
            "findings": result["findings"],
            "stability": result["stability"],
            "support": result["support"],
            "tuning": result["tuning"],
            "choice_svg": null,
        });
        Ok((Model::new(model), report.to_string()))
    }
}
