//! Flushes, compactions and options at run time.

use firn_format::options_text::parse_map;
use firndb::options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, Dialect, OptionSet, TableFactory,
};
use firndb::{FlushOptions, LiveFile};

use super::{Done, Firn};
use crate::words::{Parsed, Words, bounds, parts};

/// One end of a range; none is open.
type End = Option<Vec<u8>>;

/// Both ends of a range; an empty word is an open end.
fn range(words: &Words) -> Parsed<(End, End)> {
    let (from, to) = bounds(words.words().first().unwrap_or(&".."))?;
    Ok(((!from.is_empty()).then_some(from), (!to.is_empty()).then_some(to)))
}

/// The options within an option, by name.
fn in_order(value: &str) -> String {
    let Some(inner) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else { return value.to_owned() };
    let mut within = parts(inner);
    within.sort_unstable();
    format!("{{{}}}", within.iter().map(|part| format!("{part};")).collect::<String>())
}

impl Firn {
    pub(super) fn flush(&mut self, words: &Words) -> Done {
        let options = FlushOptions {
            wait: words.flag("wait", true),
            allow_write_stall: words.flag("allow_write_stall", true),
            ..FlushOptions::default()
        };
        let families = match &words.families[..] {
            [] => vec![self.family_called("default")?],
            names => names.iter().map(|name| self.family_called(name)).collect::<Parsed<Vec<_>>>()?,
        };
        Ok(self.db().flush_cfs(&options, &families.iter().collect::<Vec<_>>())?)
    }

    pub(super) fn compact_range(&mut self, words: &Words) -> Done {
        let options = CompactRangeOptions {
            exclusive_manual_compaction: words.flag("exclusive", false),
            change_level: words.flag("change_level", false),
            target_level: words.unsigned("target_level", -1)?,
            max_subcompactions: words.unsigned("max_subcompactions", 0)?,
            allow_write_stall: words.flag("allow_write_stall", false),
            bottommost_level_compaction: match words.text("bottommost") {
                Some("skip") => BottommostLevelCompaction::Skip,
                Some("force") => BottommostLevelCompaction::Force,
                Some("force_optimized") => BottommostLevelCompaction::ForceOptimized,
                _ => BottommostLevelCompaction::IfHaveCompactionFilter,
            },
            ..CompactRangeOptions::default()
        };
        let (from, to) = range(words)?;
        Ok(self.db().compact_range(&options, &self.family(words)?, from.as_deref(), to.as_deref())?)
    }

    /// The files of a column family by level, each level in its own order.
    pub(super) fn files_of(&self, words: &Words) -> Parsed<Vec<Vec<LiveFile>>> {
        let family = self.family(words)?;
        let count = usize::try_from(self.db().options(&family).cf.num_levels).unwrap_or(0);
        let mut levels = vec![Vec::new(); count.max(1)];
        for file in self.db().live_files() {
            if file.column_family == family.name() {
                levels[file.level].push(file);
            }
        }
        Ok(levels)
    }

    /// `compact_files -to=6 L0 L1.2`: all files of level 0 and the third of level 1.
    pub(super) fn compact_files(&mut self, words: &Words) -> Done {
        let levels = self.files_of(words)?;
        let mut numbers = Vec::new();
        for word in words.words() {
            let wrong = || format!("{word} is no file");
            let (level, at) = match word.trim_start_matches('L').split_once('.') {
                Some((level, at)) => (level, Some(at.parse::<usize>().map_err(|_| wrong())?)),
                None => (word.trim_start_matches('L'), None),
            };
            let level: usize = level.parse().map_err(|_| wrong())?;
            let files = levels.get(level).ok_or_else(wrong)?;
            let chosen = files.iter().enumerate().filter(|(place, _)| at.is_none_or(|at| at == *place));
            numbers.extend(chosen.map(|(_, file)| file.number));
        }
        let mut options = CompactionOptions::default();
        if words.has("limit") {
            options.output_file_size_limit = words.unsigned("limit", 0)?;
        }
        let to = words.unsigned("to", 1)?;
        Ok(self.db().compact_files(&options, &self.family(words)?, &numbers, to)?)
    }

    pub(super) fn delete_files(&mut self, words: &Words) -> Done {
        let (from, to) = range(words)?;
        Ok(self.db().delete_files_in_range(&self.family(words)?, from.as_deref(), to.as_deref())?)
    }

    /// A background error is no answer here: RocksDB's driver looks whether anything runs, and no more.
    pub(super) fn wait(&mut self) -> Done {
        if !self.read_only {
            let _ = self.db().wait_for_compact();
        }
        Ok(())
    }

    pub(super) fn set_options(&mut self, words: &Words) -> Done {
        let map = parse_map(&words.rest)?;
        let map: Vec<_> = map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Ok(self.db().set_options(&self.family(words)?, &map)?)
    }

    pub(super) fn set_db_options(&mut self, words: &Words) -> Done {
        let map = parse_map(&words.rest)?;
        let map: Vec<_> = map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Ok(self.db().set_db_options(&map)?)
    }

    pub(super) fn show_options(&mut self, words: &Words) -> Done {
        let options = self.db().options(&self.family(words)?);
        let mut all = options.db.entries(Dialect::of_version(7));
        all.extend(options.cf.entries(Dialect::of_version(7)));
        if let TableFactory::BlockBased(table) = &options.cf.table_factory {
            let entries = table.entries(Dialect::of_version(7)).into_iter();
            all.extend(entries.map(|(name, value)| (format!("table.{name}"), value)));
        }
        for name in words.words() {
            match all.iter().find(|(known, _)| known == name) {
                Some((_, value)) => self.say(format!("{name}={}", in_order(value))),
                None => self.say(format!("{name} none")),
            }
        }
        Ok(())
    }
}
