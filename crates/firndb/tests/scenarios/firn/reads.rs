//! Reads: gets, scans and cursors.

use firndb::options::ReadTier;
use firndb::{Cursor, PinnedSlice, ReadOptions};

use super::{Done, Firn, Stop, error_text};
use crate::words::{Parsed, Words, show, unescape};

impl Firn {
    fn read_with(&self, words: &Words) -> Parsed<ReadOptions> {
        let snapshot = match words.text("snapshot") {
            Some(name) => Some(self.snapshots.get(name).cloned().ok_or_else(|| format!("no snapshot {name}"))?),
            None => None,
        };
        let defaults = ReadOptions::default();
        let limit: u64 = words.unsigned("value_size_soft_limit", 0)?;
        Ok(ReadOptions {
            snapshot,
            iterate_lower_bound: words.text("lower").map(unescape).transpose()?,
            iterate_upper_bound: words.text("upper").map(unescape).transpose()?,
            read_tier: match words.text("tier") {
                Some("cache") => ReadTier::BlockCache,
                Some("persisted") => ReadTier::Persisted,
                Some("memtable") => ReadTier::Memtable,
                _ => ReadTier::All,
            },
            total_order_seek: words.flag("total_order_seek", false),
            prefix_same_as_start: words.flag("prefix_same_as_start", false),
            auto_prefix_mode: words.flag("auto_prefix_mode", false),
            tailing: words.flag("tailing", false),
            ignore_range_deletions: words.flag("ignore_range_deletions", false),
            max_skippable_internal_keys: words.unsigned("max_skippable", 0)?,
            pin_data: words.flag("pin_data", false),
            fill_cache: words.flag("fill_cache", true),
            verify_checksums: words.flag("verify_checksums", true),
            readahead_size: words.unsigned("readahead", 0)?,
            background_purge_on_iterator_cleanup: words.flag("background_purge", false),
            value_size_soft_limit: if limit > 0 { limit } else { defaults.value_size_soft_limit },
            ..defaults
        })
    }

    fn got(&self, key: &[u8], value: firndb::Result<Option<PinnedSlice>>) -> String {
        match value {
            Ok(Some(value)) => format!("{}={}", show(key), show(&value)),
            Ok(None) => format!("{} not found", show(key)),
            Err(error) => format!("{} {}", show(key), self.error(&error)),
        }
    }

    pub(super) fn get(&mut self, words: &Words) -> Done {
        let (options, family, db) = (self.read_with(words)?, self.family(words)?, self.db());
        let mut parts = Vec::new();
        for word in words.words() {
            let key = unescape(word)?;
            parts.push(self.got(&key, db.get_opt(&options, &family, &key)));
        }
        self.say(parts.join(", "));
        Ok(())
    }

    pub(super) fn multi_get(&mut self, words: &Words) -> Done {
        let (options, family, db) = (self.read_with(words)?, self.family(words)?, self.db());
        let keys = words.words().into_iter().map(unescape).collect::<Parsed<Vec<_>>>()?;
        let values = db.multi_get_opt(&options, &family, &keys);
        let parts: Vec<_> = keys.iter().zip(values).map(|(key, value)| self.got(key, value)).collect();
        self.say(parts.join(", "));
        Ok(())
    }

    pub(super) fn operands(&mut self, words: &Words) -> Done {
        let (options, family, db) = (self.read_with(words)?, self.family(words)?, self.db());
        let limit = words.unsigned("limit", 100)?;
        for word in words.words() {
            let key = unescape(word)?;
            let mut line = format!("{}:", show(&key));
            match db.get_merge_operands(&options, &family, &key, limit) {
                // RocksDB says so where Firn gives an empty list.
                Ok(operands) if operands.is_empty() => line.push_str(" error: NotFound"),
                Ok(operands) => operands.iter().for_each(|operand| {
                    line.push(' ');
                    line.push_str(&show(operand));
                }),
                Err(error) => line = format!("{line} {}", self.error(&error)),
            }
            self.say(line);
        }
        Ok(())
    }

    pub(super) fn may_exist(&mut self, words: &Words) -> Done {
        let (options, family, db) = (self.read_with(words)?, self.family(words)?, self.db());
        let mut parts = Vec::new();
        for word in words.words() {
            let key = unescape(word)?;
            let may = db.key_may_exist(&options, &family, &key);
            parts.push(format!("{} {}", show(&key), if may { "maybe" } else { "no" }));
        }
        self.say(parts.join(", "));
        Ok(())
    }

    fn position(&self, cursor: &Cursor, values: bool) -> String {
        if cursor.valid() && values {
            return format!("{}={}", show(cursor.key()), show(cursor.value()));
        }
        if cursor.valid() {
            return show(cursor.key());
        }
        cursor.status().err().map_or("end".to_owned(), |error| error_text(&error, self.show_text))
    }

    pub(super) fn scan(&mut self, words: &Words) -> Done {
        let mut cursor = self.db().cursor(&self.read_with(words)?, &self.family(words)?)?;
        let backward = words.flag("reverse", false);
        match (words.text("from").map(unescape).transpose()?, backward) {
            (Some(from), false) => cursor.seek(from),
            (Some(from), true) => cursor.seek_for_prev(from),
            (None, false) => cursor.seek_to_first(),
            (None, true) => cursor.seek_to_last(),
        }
        let (count, values) = (words.flag("count", false), words.flag("values", true));
        let limit: u64 = words.unsigned("limit", 1 << 30)?;
        let (mut parts, mut seen) = (Vec::new(), 0);
        while cursor.valid() && seen < limit {
            if !count {
                parts.push(self.position(&cursor, values));
            }
            seen += 1;
            if backward { cursor.prev() } else { cursor.next() }
        }
        if count {
            parts.push(format!("{seen} entries"));
        }
        if let Err(error) = cursor.status() {
            parts.push(self.error(&error));
        }
        if parts.is_empty() {
            parts.push("(empty)".to_owned());
        }
        self.say(parts.join(", "));
        Ok(())
    }

    pub(super) fn new_cursor(&mut self, words: &Words) -> Done {
        let cursor = self.db().cursor(&self.read_with(words)?, &self.family(words)?)?;
        self.cursors.insert(words.word(0)?.to_owned(), cursor);
        Ok(())
    }

    pub(super) fn walk(&mut self, words: &Words) -> Done {
        let mut own = match &words.label {
            Some(label) => self.cursors.remove(label).ok_or_else(|| format!("no cursor {label}"))?,
            None => self.db().cursor(&self.read_with(words)?, &self.family(words)?)?,
        };
        let mut parts = Vec::new();
        let walked = words.parts().into_iter().try_for_each(|step| self.step(&mut own, step, &mut parts));
        if let Some(label) = &words.label {
            self.cursors.insert(label.clone(), own);
        }
        walked?;
        self.say(parts.join(", "));
        Ok(())
    }

    fn step(&self, cursor: &mut Cursor, step: &str, parts: &mut Vec<String>) -> Done {
        let (name, rest) = step.split_once(' ').unwrap_or((step, ""));
        let said = |result: firndb::Result<()>, well: &str| match result {
            Ok(()) => well.to_owned(),
            Err(error) => self.error(&error),
        };
        match name {
            "next" | "prev" => {
                let times: u64 =
                    if rest.is_empty() { Ok(1) } else { rest.parse() }.map_err(|_| "no number".to_owned())?;
                for _ in 0..times {
                    match (cursor.valid(), name) {
                        (true, "next") => cursor.next(),
                        (true, _) => cursor.prev(),
                        (false, _) => {}
                    }
                    parts.push(self.position(cursor, true));
                    if !cursor.valid() {
                        break;
                    }
                }
                return Ok(());
            }
            "status" => {
                parts.push(said(cursor.status(), "ok"));
                return Ok(());
            }
            "refresh" => {
                let refreshed = cursor.refresh();
                parts.push(said(refreshed, "refreshed"));
                return Ok(());
            }
            "property" => {
                let value = cursor.property(rest);
                parts.push(value.map_or_else(|error| self.error(&error), |value| show(&value)));
                return Ok(());
            }
            "first" => cursor.seek_to_first(),
            "last" => cursor.seek_to_last(),
            "seek" => cursor.seek(unescape(rest)?),
            "seek_for_prev" => cursor.seek_for_prev(unescape(rest)?),
            _ => return Err(Stop::Broken(format!("no step {name}"))),
        }
        parts.push(self.position(cursor, true));
        Ok(())
    }

    pub(super) fn take_snapshot(&mut self, words: &Words) -> Done {
        for name in words.words() {
            self.snapshots.insert(name.to_owned(), self.db().snapshot());
        }
        Ok(())
    }

    pub(super) fn release(&mut self, words: &Words) -> Done {
        for name in words.words() {
            self.snapshots.remove(name).ok_or_else(|| format!("no snapshot {name}"))?;
        }
        Ok(())
    }
}
