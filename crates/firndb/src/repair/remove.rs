//! Taking one table out of a database that is not open.

use std::path::Path;

use firn_error::{Error, Result};
use firn_format::filename;
use firn_format::key::FileNumber;
use firn_format::version_edit::VersionEdit;

use crate::options::DbOptions;
use crate::version::{continue_manifest, read_current, read_manifest};

/// Takes the table `number` out of the MANIFEST of the database at `path`, without looking whether its data is elsewhere: what
/// only it holds is gone, and what it hid appears again. The file itself goes when the database is next opened. Nobody may
/// have the database open.
///
/// # Errors
/// `NotFound` when no level has such a file; `Corruption` with file and offset, `IoError`.
pub fn unsafe_remove_table(path: impl AsRef<Path>, options: &DbOptions, number: FileNumber) -> Result<()> {
    let (db_dir, fs) = (path.as_ref(), options.env.fs());
    let _lock = fs.lock_file(&db_dir.join(filename::LOCK))?;
    let current = read_current(&**fs, db_dir)?;
    let (mut edits, mut next) = (Vec::new(), current.0 + 1);
    // Column family and level.
    let mut place: Option<(u32, u32)> = None;
    read_manifest(&**fs, &db_dir.join(filename::manifest(current)), |edit, _| {
        for (level, file) in &edit.deleted_files {
            place.take_if(|place| *place == (edit.column_family, *level) && *file == number);
        }
        if edit.column_family_drop {
            place.take_if(|place| place.0 == edit.column_family);
        }
        if let Some((level, _)) = edit.new_files.iter().find(|(_, file)| file.number == number) {
            place = Some((edit.column_family, *level));
        }
        next = next.max(edit.next_file_number.map_or(0, |number| number.0));
        edits.push(edit);
        Ok(())
    })?;
    // A group that was not completed does not count, and nothing may come between its parts.
    while edits.last().is_some_and(|edit: &VersionEdit| edit.remaining_entries.is_some_and(|left| left > 0)) {
        edits.pop();
    }
    let Some((column_family, level)) = place else {
        return Err(Error::not_found("File not present in any level"));
    };
    let mut removal =
        VersionEdit { column_family, next_file_number: Some(FileNumber(next + 1)), ..VersionEdit::default() };
    removal.delete_file(level, number);
    // A whole new MANIFEST: the old one stays as it is until CURRENT names the other.
    continue_manifest(&**fs, db_dir, (current, edits.len()), FileNumber(next), &removal)
}
