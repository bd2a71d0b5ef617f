//! What the random tests of the whole store share.
//!
//! [`Sight`] is one column family at one moment: it asks every way of reading for the same entries and compares the
//! answers. [`Walk`] keeps a cursor beside the list that it must show and knows what each set of read options promises.
//! [`shapes`] draws the keys and files at which engines break, [`recipe`] draws options.
//!
//! Only tests and `db_stress` use this crate, and it uses nothing but the public API of `firndb`. Always true here: a check
//! says in words what is wrong and never panics over what the database answers.

#[allow(clippy::unwrap_used, reason = "lists of choices are constants and not empty")]
pub mod recipe;
pub mod shapes;
mod sight;
mod walk;

pub use sight::{Effort, Sight};
pub use walk::{Move, Walk};

/// Entries in the order of their column family.
pub type Entries = Vec<firndb::Entry>;

/// What is wrong, in words.
pub type Outcome = Result<(), String>;

/// Turns an error of the store into words.
///
/// # Errors
/// Those words.
pub fn say<T>(what: &str, result: firndb::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// The start of a key or value as text.
fn head(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 48;
    match bytes.get(..SHOWN_BYTES) {
        Some(start) if bytes.len() > SHOWN_BYTES => format!("\"{}…\" ({} bytes)", start.escape_ascii(), bytes.len()),
        _ => format!("\"{}\"", bytes.escape_ascii()),
    }
}
