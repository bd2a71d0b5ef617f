//! External files, checkpoints and lists of files.

use std::collections::BTreeMap;

use firndb::options::IngestExternalFileOptions;
use firndb::{Db, FileKind, ImportColumnFamilyOptions, IngestExternalFiles, Options, sst_file_writer};

use super::{Done, Firn, Stop};
use crate::words::{Words, bounds, pair, parts, unescape};

impl Firn {
    /// `sst name put a=1; delete b`: an external file beside the database.
    pub(super) fn write_sst(&mut self, words: &Words) -> Done {
        let (name, rest) = words.rest.split_once(' ').unwrap_or((&words.rest, ""));
        let cf = words.families.first().map_or_else(|| self.options.cf.clone(), |family| self.options_of(family));
        let mut writer = sst_file_writer(&Options { db: self.options.db.clone(), cf });
        writer.open(&self.root.join(format!("{name}.sst")))?;
        for part in parts(rest) {
            let (operation, rest) = part.split_once(' ').unwrap_or((part, ""));
            for word in rest.split(' ').filter(|word| !word.is_empty()) {
                match operation {
                    "put" => {
                        let (key, value) = pair(word)?;
                        writer.put(&key, &value)?;
                    }
                    "merge" => {
                        let (key, operand) = pair(word)?;
                        writer.merge(&key, &operand)?;
                    }
                    "delete" => writer.delete(&unescape(word)?)?,
                    "delete_range" => {
                        let (from, to) = bounds(word)?;
                        writer.delete_range(&from, &to)?;
                    }
                    _ => return Err(Stop::Broken(format!("no operation {operation}"))),
                }
            }
        }
        writer.finish()?;
        Ok(())
    }

    pub(super) fn ingest(&mut self, words: &Words) -> Done {
        let options = IngestExternalFileOptions {
            move_files: words.flag("move_files", false),
            failed_move_fall_back_to_copy: words.flag("failed_move_fall_back_to_copy", true),
            snapshot_consistency: words.flag("snapshot_consistency", true),
            allow_global_seqno: words.flag("allow_global_seqno", true),
            allow_blocking_flush: words.flag("allow_blocking_flush", true),
            ingest_behind: words.flag("ingest_behind", false),
            write_global_seqno: words.flag("write_global_seqno", false),
            verify_checksums_before_ingest: words.flag("verify_checksums_before_ingest", false),
            fail_if_not_bottommost_level: words.flag("fail_if_not_bottommost_level", false),
            ..IngestExternalFileOptions::default()
        };
        let files: Vec<_> = words.words().iter().map(|name| self.root.join(format!("{name}.sst"))).collect();
        Ok(self.db().ingest_external_file(&self.family(words)?, &files, &options)?)
    }

    /// `ingest_all @one x y; @two z`: files for several families at once.
    pub(super) fn ingest_all(&mut self, rest: &str) -> Done {
        let mut all = Vec::new();
        for part in parts(rest) {
            let words = Words::parse(part);
            let files = words.words().iter().map(|name| self.root.join(format!("{name}.sst"))).collect();
            all.push((self.family(&words)?, files));
        }
        let ingestions: Vec<_> = all
            .iter()
            .map(|(cf, files): &(_, Vec<_>)| IngestExternalFiles {
                cf,
                files: files.clone(),
                checksums: Vec::new(),
                options: IngestExternalFileOptions::default(),
            })
            .collect();
        Ok(self.db().ingest_external_files(&ingestions)?)
    }

    /// `export @one name`: a family's tables beside the database, for `import`.
    pub(super) fn export(&mut self, words: &Words) -> Done {
        let name = words.word(0)?;
        let exported = self.db().export_cf(&self.family(words)?, self.root.join(name))?;
        self.exports.insert(name.to_owned(), exported);
        Ok(())
    }

    /// `import @two name`: a new family of exported tables.
    pub(super) fn import(&mut self, words: &Words) -> Done {
        let name = words.word(0)?;
        let exported = self.exports.get(name).cloned().ok_or_else(|| format!("no export {name}"))?;
        let how = ImportColumnFamilyOptions { move_files: words.flag("move_files", false) };
        let family = words.families.first().ok_or_else(|| "no family".to_owned())?;
        let handle = self.db().create_cf_with_import(family, self.options_of(family), &[exported], how)?;
        self.families.insert(family.clone(), handle);
        Ok(())
    }

    /// Opens the same directory once more beside the open database, and closes that.
    pub(super) fn try_open(&mut self, words: &Words) -> Done {
        let open = if words.has("read_only") { Db::open_cf_read_only } else { Db::open_cf };
        open(&self.dir, self.options.db.clone(), self.descriptors(&[]))?.close()?;
        self.say("opened");
        Ok(())
    }

    /// `checkpoint name`: a copy of the database beside it, for `use name`.
    pub(super) fn make_checkpoint(&mut self, words: &Words) -> Done {
        let dir = self.root.join(words.word(0)?);
        self.db().checkpoint_with_wal(dir, words.unsigned("log_size_for_flush", 0)?)?;
        Ok(())
    }

    pub(super) fn live_files(&mut self, words: &Words) -> Done {
        let (names, _) = self.db().live_file_names(words.flag("flush", true))?;
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &names {
            let name = name.trim_start_matches('/');
            let kind = name.split_once('.').map_or_else(|| name.split('-').next().unwrap_or(name), |(_, kind)| kind);
            *kinds.entry(kind).or_default() += 1;
        }
        let counts: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
        self.say(counts.join(" "));
        Ok(())
    }

    pub(super) fn wal_files(&mut self) -> Done {
        let files = self.db().sorted_wal_files()?;
        let archived = files.iter().filter(|file| file.kind == FileKind::ArchivedWal).count();
        self.say(format!("alive {} archived {archived}", files.len() - archived));
        Ok(())
    }
}
