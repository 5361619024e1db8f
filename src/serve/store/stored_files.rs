//! Records of datasets and models.

use super::audit::line;
use super::database::Store;
use super::shares::{Holder, share};
use super::writer::Answer;
use crate::serve::domain::client::Client;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::info::{DatasetInfo, ModelInfo};
use crate::serve::domain::now;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

impl Store {
    pub(crate) fn dataset(&self, id: &ContentId) -> Result<Option<DatasetInfo>, ServiceError> {
        self.info("SELECT info FROM datasets WHERE id = ?1", id)
    }

    fn info<T: for<'a> Deserialize<'a>>(
        &self,
        query: &str,
        id: &ContentId,
    ) -> Result<Option<T>, ServiceError> {
        let text: Option<String> =
            self.read(|db| db.prepare_cached(query)?.query_row([id.as_str()], |row| row.get(0)).optional())?;
        text.map(|text| serde_json::from_str(&text).map_err(|_| ServiceError::UnreadableRecord)).transpose()
    }

    /// A dataset of an owner, under the name that the owner gave it. Without an owner: any dataset, under the name that its first
    /// uploader gave it.
    pub(crate) fn dataset_for(
        &self,
        id: &ContentId,
        owner: Option<&str>,
    ) -> Result<DatasetInfo, ServiceError> {
        let unknown = ServiceError::NotFound("dataset");
        let own_name = match owner {
            Some(owner) => self.shared("datasets", id, owner)?.ok_or(unknown.clone())?,
            None => None,
        };
        let mut info = self.dataset(id)?.ok_or(unknown)?;
        info.name = own_name.unwrap_or(info.name);
        Ok(info)
    }

    /// A model of an owner; any model without one.
    pub(crate) fn model_for(&self, id: &ContentId, owner: Option<&str>) -> Result<ModelInfo, ServiceError> {
        let unknown = ServiceError::NotFound("model");
        if let Some(owner) = owner {
            self.shared("models", id, owner)?.ok_or(unknown.clone())?;
        }
        self.info("SELECT info FROM models WHERE id = ?1", id)?.ok_or(unknown)
    }

    /// Records a dataset and gives it to the client who uploaded it. A dataset that is on record already stays the same.
    pub(crate) async fn add_dataset(&self, client: &Client, info: &DatasetInfo) -> Answer {
        let logged = line(Some(client), "create", "dataset", info.id.as_str());
        self.write_logged(logged, insert_dataset(info, &owner(client))).await
    }

    /// The same for a holder other than a client, on a thread that may wait.
    pub(crate) fn add_dataset_now(&self, info: &DatasetInfo, holder: &Holder) -> Answer {
        self.write_now(insert_dataset(info, holder))
    }

    /// Gives a dataset that is on record to a client who uploads it again, under the client's name. It counts as uploaded now.
    pub(crate) async fn share_dataset(&self, client: &Client, id: &ContentId, name: &str) -> Answer {
        let logged = line(Some(client), "create", "dataset", id.as_str());
        let share = share("datasets", id, &owner(client), Some(name));
        let id = id.as_str().to_owned();
        let touch = move |db: &Transaction<'_>| {
            match db.execute("UPDATE datasets SET created = ?2 WHERE id = ?1", params![id, now()])? {
                // It was removed in the meantime.
                0 => Err(rusqlite::Error::QueryReturnedNoRows),
                _ => share(db),
            }
        };
        self.write_logged(logged, touch).await
    }

    /// Whether a client has a dataset.
    pub(crate) fn has_dataset(&self, client: &Client, id: &ContentId) -> Result<bool, ServiceError> {
        Ok(self.shared("datasets", id, client.owner())?.is_some())
    }

    /// Records a model and gives it to the client who uploaded it. A model that is on record already stays the same.
    pub(crate) async fn add_model(&self, client: &Client, info: &ModelInfo) -> Answer {
        let logged = line(Some(client), "create", "model", info.id.as_str());
        self.write_logged(logged, insert_model(info, &owner(client))).await
    }

    /// The same for a holder other than a client, on a thread that may wait.
    pub(crate) fn add_model_now(&self, info: &ModelInfo, holder: &Holder) -> Answer {
        self.write_now(insert_model(info, holder))
    }
}

fn owner(client: &Client) -> Holder {
    Holder::Owner(client.owner().to_owned())
}

fn insert_dataset(
    info: &DatasetInfo,
    holder: &Holder,
) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
    let DatasetInfo { id, name, bytes, rows, variables, environments, created } = info;
    let text = to_text(info);
    let counts = [*bytes as i64, *rows as i64, variables.len() as i64, environments.len() as i64];
    let share = share("datasets", id, holder, Some(name));
    let (id, name, created) = (id.as_str().to_owned(), name.clone(), *created);
    move |db| {
        let [bytes, rows, variables, environments] = counts;
        // The same content again repairs a record that could not be read.
        db.prepare_cached(
            "INSERT INTO datasets (id, info, created, name, bytes, rows, variables, environments)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET info = ?2, name = ?4, bytes = ?5, rows = ?6, variables = ?7, environments = ?8",
        )?
        .execute(params![id, text, created, name, bytes, rows, variables, environments])?;
        share(db)
    }
}

fn insert_model(
    info: &ModelInfo,
    holder: &Holder,
) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
    let (text, share) = (to_text(info), share("models", &info.id, holder, None));
    let (id, created) = (info.id.as_str().to_owned(), info.created);
    move |db| {
        db.prepare_cached(
            "INSERT INTO models (id, info, created) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET info = ?2",
        )?
        .execute(params![id, text, created])?;
        share(db)
    }
}

fn to_text(info: &impl Serialize) -> String {
    serde_json::to_string(info).expect("descriptions serialise")
}
