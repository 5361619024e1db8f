//! Who may use a dataset or a model: those who uploaded it, and those whose jobs made it. Files are kept once, whoever has them.

use crate::serve::domain::id::{ContentId, JobId};
use crate::serve::domain::problem::Problem;
use crate::serve::store::database::{Store, now};
use rusqlite::{OptionalExtension, Transaction, params};

/// Who gets something.
#[derive(Clone, Debug)]
pub enum Holder {
    /// Someone by name.
    Owner(String),
    /// Whoever asked for this job.
    Job(JobId),
}

/// A change after which someone has a dataset or a model, named as in its table: under their own name of it, if they gave one.
pub fn share(
    table: &'static str,
    id: &ContentId,
    holder: &Holder,
    name: Option<&str>,
) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + use<> {
    let (id, holder, name) = (id.as_str().to_owned(), holder.clone(), name.map(str::to_owned));
    move |db| {
        // What is there already keeps its name and counts as new.
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
    /// Someone's own name of a dataset or a model, and since when they have it; none if they do not.
    pub fn shared(
        &self,
        table: &str,
        id: &ContentId,
        owner: &str,
    ) -> Result<Option<(Option<String>, f64)>, Problem> {
        self.read(|db| {
            db.prepare_cached("SELECT name, created FROM shares WHERE kind = ?1 AND id = ?2 AND owner = ?3")?
                .query_row([table, id.as_str(), owner], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
    }
}
