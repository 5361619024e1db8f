//! Who may use a dataset or a model: the clients who uploaded it, and those whose jobs made it. A file is stored once, however many
//! have it.

use super::database::Store;
use crate::serve::domain::error::ServiceError;
use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::now;
use rusqlite::{OptionalExtension, Transaction, params};

/// Who gets a dataset or a model.
#[derive(Clone, Debug)]
pub(crate) enum Holder {
    /// An owner.
    Owner(String),
    /// The owner of this job.
    Job(JobId),
}

/// A change that gives a dataset or a model (`table` says which) to a holder, under a name of their own if they gave one.
pub(super) fn share(
    table: &'static str,
    id: &ContentId,
    holder: &Holder,
    name: Option<&str>,
) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
    let (id, holder, name) = (id.as_str().to_owned(), holder.clone(), name.map(str::to_owned));
    move |db| {
        // A share that exists already keeps its name and counts as new.
        let (from, key) = match &holder {
            Holder::Owner(owner) => ("SELECT ?1, ?2, ?5, ?3, ?4", owner.as_str()),
            Holder::Job(job) => ("SELECT ?1, ?2, owner, ?3, ?4 FROM jobs WHERE id = ?5", job.as_str()),
        };
        let query = format!(
            "INSERT INTO shares (kind, id, owner, name, created) {from} {} ON CONFLICT DO UPDATE SET created = ?4",
            // For the parser, which would take ON for a join's.
            if matches!(holder, Holder::Owner(_)) { "WHERE true" } else { "" }
        );
        db.prepare_cached(&query)?.execute(params![table, id, name, now(), key]).map(|_| ())
    }
}

impl Store {
    /// The name that an owner gave a dataset or a model, if the owner has it at all.
    pub(super) fn shared(
        &self,
        table: &str,
        id: &ContentId,
        owner: &str,
    ) -> Result<Option<Option<String>>, ServiceError> {
        self.read(|db| {
            db.prepare_cached("SELECT name FROM shares WHERE kind = ?1 AND id = ?2 AND owner = ?3")?
                .query_row([table, id.as_str(), owner], |row| row.get(0))
                .optional()
        })
    }
}
