//! What the service keeps: its database, with all the SQL there is, and its folder of files.

pub mod audit;
pub mod database;
pub mod files;
pub mod folder;
pub mod lists;
pub mod readers;
pub mod rows;
pub mod schema;
pub mod shares;
pub mod tokens;
pub mod writer;
