//! What a fit hands to people: its files, its pictures, and sentences about it. The command line and the service share them.

mod choice;
mod fit;
#[cfg(feature = "plot")]
pub(crate) mod picture;
mod summary;
mod trust;

pub(crate) use fit::{write_exact, write_trained};

/// "a, b and c".
fn list(parts: &[String]) -> String {
    match parts {
        [] => "none".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
