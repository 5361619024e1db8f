//! What the service keeps: its database, with all the SQL there is, and its folder of files.

pub(super) mod audit;
pub(super) mod database;
pub(super) mod files;
pub(super) mod folder;
mod jobs;
pub(super) mod lists;
pub(super) mod removal;
mod rows;
mod schema;
mod shares;
mod stored_files;
pub(crate) mod tokens;
mod writer;

pub(super) use database::Store;
pub(super) use files::Files;
pub(super) use rows::Unfinished;
pub(super) use shares::Holder;
