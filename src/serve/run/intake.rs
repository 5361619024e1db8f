//! Takes in uploaded datasets and models: inspects them, reads them within the limits, stores and records them.

use super::read_cost::ReadCost;
use super::service::Service;
use super::upload_budget::DiskRoom;
use crate::data::{Dataset, outline_of_csv};
use crate::model::Model;
use crate::serve::domain::client::Client;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::{DatasetInfo, ModelInfo};
use crate::serve::domain::limits::Limits;
use crate::{Error, Matrix};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempPath;

type Answer<T> = Result<T, ServiceError>;

/// An uploaded file on the disk. It is removed when this is dropped, unless it was moved to its place.
pub(crate) struct Upload {
    pub path: TempPath,
    pub bytes: u64,
    pub hash: Sha256,
    /// The room on the disk that it has.
    pub _room: DiskRoom,
}

/// The format of an uploaded dataset.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Format {
    Npz,
    Csv,
}

impl Format {
    /// The format that the ending of a file's name stands for.
    pub(crate) fn of(name: &str) -> Option<Format> {
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "npz" => Some(Format::Npz),
            "csv" => Some(Format::Csv),
            _ => None,
        }
    }

    pub(crate) fn ending(self) -> &'static str {
        match self {
            Format::Npz => ".npz",
            Format::Csv => ".csv",
        }
    }
}

/// What a client says about an uploaded dataset.
pub(crate) struct Description {
    pub name: String,
    pub format: Format,
    /// For csv: which environments intervene on what, like 1=x3;2=x5,x6.
    pub targets: Option<String>,
}

impl Description {
    /// The id of a dataset: the hash of the file, together with the targets if they are given.
    fn id(&self, upload: &Upload) -> ContentId {
        let own = ContentId::of(upload.hash.clone());
        match &self.targets {
            None => own,
            // All hashes have the same length, so no two such texts are equal.
            Some(targets) => ContentId::of(Sha256::new_with_prefix(format!("{}{targets}", own.as_str()))),
        }
    }
}

/// A dataset that was taken in.
pub(crate) struct TakenIn {
    pub info: DatasetInfo,
    /// Whether the client did not have it before.
    pub is_new: bool,
}

impl Service {
    /// Takes in a dataset. The client may disconnect meanwhile: no file stays without a record.
    pub(in crate::serve) async fn take_in_dataset(
        self: &Arc<Self>,
        client: &Client,
        upload: Upload,
        description: Description,
    ) -> Answer<TakenIn> {
        let (service, client) = (self.clone(), client.clone());
        let taken = tokio::spawn(async move {
            let id = description.id(&upload);
            if let Some(known) = service.share_known(&client, &id, &description.name).await? {
                return Ok(known);
            }
            // The memory for reading is known before it is used, and all uploads share what there is.
            let inspecting = service.clone();
            let inspect = move || read_cost(&inspecting.limits, &upload.path).map(|bytes| (upload, bytes));
            let (upload, bytes) = blocking(inspect).await?;
            let _memory = service.upload_budget.memory(bytes).await?;
            let reading = service.clone();
            let info = blocking(move || reading.store_dataset(&upload, id, &description)).await?;
            service.store.add_dataset(&client, &info).await?;
            Ok(TakenIn { info, is_new: true })
        });
        taken.await.unwrap_or(Err(ServiceError::Internal))
    }

    /// Gives a dataset that is here already to the client, whoever uploaded it. A dataset whose record cannot be read is taken in
    /// again.
    async fn share_known(&self, client: &Client, id: &ContentId, name: &str) -> Answer<Option<TakenIn>> {
        let Ok(Some(_)) = self.store.dataset(id) else { return Ok(None) };
        let had = self.store.has_dataset(client, id)?;
        match self.store.share_dataset(client, id, name).await {
            // It was removed in the meantime.
            Err(ServiceError::NotFound(_)) => return Ok(None),
            written => written?,
        }
        let info = self.store.dataset_for(id, client.sees_only())?;
        Ok(Some(TakenIn { info, is_new: !had }))
    }

    /// Reads a dataset, which checks it, and moves it to its place: an .npz as it is, a csv as .npz.
    fn store_dataset(
        &self,
        upload: &Upload,
        id: ContentId,
        description: &Description,
    ) -> Answer<DatasetInfo> {
        let Description { name, format, targets } = description;
        // The reader of csv takes targets from a second file.
        let targets =
            targets.as_ref().map(|targets| self.write_targets(&upload.path, targets)).transpose()?;
        let data = Dataset::read_within(&upload.path, targets.as_deref(), &self.limits.most())?;
        self.limits.check_variables(data.dim())?;
        self.limits.check_environments(data.environments())?;
        self.limits.check_names(data.names().iter().map(String::as_str))?;
        let place = self.files.dataset(&id);
        let bytes = match format {
            Format::Npz => {
                self.files.take(&upload.path, &place)?;
                upload.bytes
            }
            Format::Csv => {
                let folder = tempfile::tempdir_in(self.files.uploads())?;
                let path = folder.path().join("data.npz");
                data.write(&path)?;
                let bytes = std::fs::metadata(&path)?.len();
                self.files.take(&path, &place)?;
                bytes
            }
        };
        Ok(DatasetInfo::of(id, name, &data, bytes))
    }

    /// Writes 1=x3;2=x5,x6 as the file that goes with a csv file: a row of 0 and 1 for each environment.
    fn write_targets(&self, path: &Path, text: &str) -> Answer<TempPath> {
        let bad = |error: csv::Error| ServiceError::invalid(format!("the file: {error}"));
        let (names, environments) = outline_of_csv(path, &self.limits.most())?;
        self.limits.check_environments(environments)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let targets = parse_targets(text, &names, environments)?;
        let file = tempfile::Builder::new().suffix(".csv").tempfile_in(self.files.uploads())?;
        let mut writer = csv::Writer::from_writer(file);
        writer.write_record(&names).map_err(bad)?;
        for e in 0..targets.rows() {
            let row = targets.row(e).iter().map(|target| if *target { "1" } else { "0" });
            writer.write_record(row).map_err(bad)?;
        }
        Ok(writer.into_inner().map_err(|error| error.into_error())?.into_temp_path())
    }

    /// Takes in a model. The client may disconnect meanwhile: no file stays without a record.
    pub(in crate::serve) async fn take_in_model(
        self: &Arc<Self>,
        client: &Client,
        upload: Upload,
    ) -> Answer<ModelInfo> {
        let bytes = ReadCost::bytes_of_model(upload.bytes);
        self.limits.check_bytes(bytes)?;
        let (service, client) = (self.clone(), client.clone());
        let taken = tokio::spawn(async move {
            let _memory = service.upload_budget.memory(bytes).await?;
            let reading = service.clone();
            let info = blocking(move || {
                let model = Model::read(&upload.path)?;
                reading.limits.check_variables(model.dim())?;
                reading.limits.check_names(model.names.iter().map(String::as_str))?;
                Ok(reading.files.keep_model(&upload.path, &model)?)
            })
            .await?;
            service.store.add_model(&client, &info).await?;
            Ok(info)
        });
        taken.await.unwrap_or(Err(ServiceError::Internal))
    }
}

/// Works on a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ServiceError::Internal)?
}

/// Inspects the size and shape of a dataset's file. Returns the bytes of memory for reading it.
pub(crate) fn read_cost(limits: &Limits, path: &Path) -> Answer<f64> {
    let cost = match path.extension() {
        // A small file can unpack to a large one.
        Some(ending) if ending == "npz" => ReadCost::of_npz(path)?,
        _ => ReadCost::of_csv(path)?,
    };
    limits.check_variables(cost.variables)?;
    limits.check_bytes(cost.bytes)?;
    Ok(cost.bytes)
}

fn parse_targets(text: &str, names: &[&str], environments: usize) -> crate::Result<Matrix<bool>> {
    let mut targets = Matrix::full(environments, names.len(), false);
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let wrong = || {
            Error::invalid(format!(
                "found '{part}' in the targets, expected ENVIRONMENT=VARIABLE,… with an environment below {environments} and names \
                 of variables"
            ))
        };
        let (e, variables) = part.split_once('=').ok_or_else(wrong)?;
        let e = e.trim().parse::<usize>().ok().filter(|e| *e < environments).ok_or_else(wrong)?;
        for name in variables.split(',') {
            let j = names.iter().position(|known| *known == name.trim()).ok_or_else(wrong)?;
            targets[(e, j)] = true;
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_by_name() {
        let names = ["x0", "x1"];
        let found = parse_targets("1=x0, x1", &names, 2).unwrap();
        assert_eq!(found.as_slice(), [false, false, true, true]);
        assert!(parse_targets("", &names, 2).unwrap().as_slice().iter().all(|t| !t));
        for wrong in ["1", "2=x0", "1=y", "a=x0"] {
            assert!(parse_targets(wrong, &names, 2).is_err(), "{wrong}");
        }
    }
}
