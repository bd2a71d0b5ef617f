//! Writes: single ones and batches.

use firndb::{ColumnFamily, WriteBatch, WriteOptions};

use super::{Done, Firn, Stop};
use crate::words::{Words, bounds, pair, unescape};

fn options(words: &Words) -> WriteOptions {
    WriteOptions {
        sync: words.flag("sync", false),
        disable_wal: words.flag("disable_wal", false),
        no_slowdown: words.flag("no_slowdown", false),
        low_pri: words.flag("low_pri", false),
        ignore_missing_column_families: words.flag("ignore_missing_column_families", false),
        memtable_insert_hint_per_batch: words.flag("hint", false),
        ..WriteOptions::default()
    }
}

impl Firn {
    pub(super) fn write_each(&mut self, name: &str, words: &Words) -> Done {
        let (db, family, options) = (self.db(), self.family(words)?, options(words));
        for word in words.words() {
            match name {
                "put" => {
                    let (key, value) = pair(word)?;
                    db.put_opt(&options, &family, key, value)?;
                }
                "merge" => {
                    let (key, operand) = pair(word)?;
                    db.merge_opt(&options, &family, key, operand)?;
                }
                "delete" => db.delete_opt(&options, &family, unescape(word)?)?,
                "single_delete" => db.single_delete_opt(&options, &family, unescape(word)?)?,
                _ => {
                    let (from, to) = bounds(word)?;
                    db.delete_range_opt(&options, &family, from, to)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, words: &Words) -> Done {
        let family = self.family(words)?;
        let mut batch = WriteBatch::with_max_bytes(words.unsigned("max_bytes", 0)?);
        for part in words.parts() {
            match self.add_to(&mut batch, part, &family) {
                Err(Stop::Failed(error)) => {
                    let text = self.error(&error);
                    self.say(text);
                }
                other => other?,
            }
        }
        if words.has("count") {
            self.say(format!("count {}", batch.count()));
        }
        Ok(self.db().write_opt(&options(words), &mut batch)?)
    }

    /// Adds one operation, such as `put @one a=1 b=2`.
    fn add_to(&self, batch: &mut WriteBatch, text: &str, family: &ColumnFamily) -> Done {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let words = Words::parse(rest);
        let family = if words.families.is_empty() { family.clone() } else { self.family(&words)? };
        match name {
            "savepoint" => batch.set_save_point(),
            "rollback" => batch.rollback_to_save_point()?,
            "pop" => batch.pop_save_point()?,
            "clear" => batch.clear(),
            _ => {}
        }
        for word in words.words() {
            match name {
                "put" => {
                    let (key, value) = pair(word)?;
                    batch.put_cf(&family, key, value)?;
                }
                "merge" => {
                    let (key, operand) = pair(word)?;
                    batch.merge_cf(&family, key, operand)?;
                }
                "delete" => batch.delete_cf(&family, unescape(word)?)?,
                "single_delete" => batch.single_delete_cf(&family, unescape(word)?)?,
                "delete_range" => {
                    let (from, to) = bounds(word)?;
                    batch.delete_range_cf(&family, from, to)?;
                }
                "log" => batch.put_log_data(unescape(word)?)?,
                _ => return Err(Stop::Broken(format!("no operation {name}"))),
            }
        }
        Ok(())
    }
}
