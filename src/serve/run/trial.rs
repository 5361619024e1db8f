//! What the service would answer to a job or an upload, without accepting it. Tests try many inputs this way.

use super::intake;
use super::service::Service;
use crate::Result;
use crate::data::Dataset;
use crate::model::Model;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::DatasetInfo;
use crate::serve::domain::kinds::Request;
use crate::serve::store::Holder;
use std::path::Path;

fn nobody() -> Holder {
    Holder::Owner(String::new())
}

impl Service {
    /// What the job in a request's body would need: bytes of memory and operations; or why it is refused.
    pub fn estimate(&self, body: &[u8]) -> std::result::Result<(f64, f64), String> {
        let request = Request::parse(body).map_err(|error| error.to_string())?;
        let estimate = self.check(&request, None).map_err(|error| error.to_string())?;
        Ok((estimate.bytes, estimate.operations))
    }

    /// The bytes of memory for reading a dataset, by a look at its file; or why it would be refused.
    pub fn estimate_upload(&self, path: &Path) -> std::result::Result<f64, String> {
        intake::read_cost(&self.limits, path).map_err(|error| error.to_string())
    }

    /// Stores a dataset, as if it had been uploaded, and returns its id.
    pub fn keep_dataset(&self, data: &Dataset) -> Result<String> {
        let path = self.files.uploads().join("data.npz");
        data.write(&path)?;
        let id = ContentId::of_file(&path)?;
        self.files.take(&path, &self.files.dataset(&id))?;
        let info = DatasetInfo::of(id, "data.npz", data, 0);
        self.store.add_dataset_now(&info, &nobody()).map_err(ServiceError::into_error)?;
        Ok(info.id.as_str().to_owned())
    }

    /// Stores a model, as if it had been uploaded, and returns its id.
    pub fn keep_model(&self, model: &Model) -> Result<String> {
        let path = self.files.uploads().join("model.safetensors");
        model.save(&path)?;
        let info = self.files.keep_model(&path, model)?;
        self.store.add_model_now(&info, &nobody()).map_err(ServiceError::into_error)?;
        Ok(info.id.as_str().to_owned())
    }
}
