//! What is handed to people, the same from the command line and from the service: files, pictures and sentences about fits.

mod fit;
#[cfg(feature = "plot")]
pub mod picture;
mod words;

pub use fit::{write_exact, write_trained};
