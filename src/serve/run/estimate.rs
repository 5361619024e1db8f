//! What a service would say to a job, without taking it: the way in for tests that try many.

use crate::data::Dataset;
use crate::model::Model;
use crate::serve::domain::describe::describe;
use crate::serve::domain::problem::Problem;
use crate::serve::domain::request::Request;
use crate::serve::http::{look, parse};
use crate::serve::run::service::Service;
use crate::serve::store::database::Store;
use crate::serve::store::files::hash_of;
use crate::serve::store::shares::Holder;
use crate::{Error, Result};
use std::path::Path;

/// Whoever tries.
fn nobody() -> Holder {
    Holder::Owner(String::new())
}

impl Service {
    /// What the job in a request's body would need: bytes of memory and operations; or why it is refused.
    pub fn estimate(&self, body: &[u8]) -> std::result::Result<(f64, f64), String> {
        let said = |problem: Problem| problem.sentence;
        let request: Request = parse(body).map_err(said)?;
        let need = self.check(&request, None).map_err(said)?;
        Ok((need.bytes, need.operations))
    }

    /// The memory that reading a dataset would take, in bytes, by a look at its file; or why it would be refused.
    pub fn estimate_upload(&self, path: &Path) -> std::result::Result<f64, String> {
        look(&self.limits, path).map_err(|problem| problem.sentence)
    }

    /// Takes in a dataset, as if it had been uploaded; its id.
    pub fn keep_dataset(&self, data: &Dataset) -> Result<String> {
        let path = self.files.uploads().join("data.npz");
        data.write(&path)?;
        let id = hash_of(&path)?;
        self.files.take(&path, &self.files.dataset(&id))?;
        let info = describe(id, "data.npz", data, 0);
        let written = self.store.write_now(Store::keep_dataset(&info, &nobody()));
        written.map_err(|problem| Error::invalid(problem.sentence))?;
        Ok(info.id.as_str().to_owned())
    }

    /// Takes in a model, as if it had been uploaded; its id.
    pub fn keep_model(&self, model: &Model) -> Result<String> {
        let path = self.files.uploads().join("model.safetensors");
        model.save(&path)?;
        let info = self.files.keep_model(&path, model.clone())?;
        let written = self.store.write_now(Store::keep_model(&info, &nobody()));
        written.map_err(|problem| Error::invalid(problem.sentence))?;
        Ok(info.id.as_str().to_owned())
    }
}
