//! What the service keeps: its database, with all the SQL there is, and its folder of files.

pub mod audit;
pub mod database;
pub mod files;
pub mod folder;
mod jobs;
pub mod lists;
pub mod removal;
mod rows;
mod schema;
mod shares;
mod stored_files;
pub mod tokens;
mod writer;

pub use database::Store;
pub use files::Files;
pub use rows::Unfinished;
pub use shares::Holder;
