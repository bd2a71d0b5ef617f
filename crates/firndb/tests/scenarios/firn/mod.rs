//! Firn behind the scenario commands: the same commands and answers as `driver.cc` gives for RocksDB.

mod files;
mod reads;
mod see;
mod work;
mod writes;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::{Env, GenericRateLimiter, RateLimiter, RateLimiterOptions};
use firn_format::options_text::parse_map;
use firndb::options::{ConfigOptions, OptionSet};
use firndb::stats::Statistics;
use firndb::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Cursor, Db, Error, ExportedColumnFamily, Options,
    Snapshot, SubCode,
};

use crate::words::{Parsed, Words};
use crate::{Answer, Engine};
use see::Events;

/// Commands that do without an open database.
const WITHOUT_DB: [&str; 16] = [
    "start",
    "dir",
    "open",
    "close",
    "options",
    "destroy",
    "repair",
    "list_families",
    "sst",
    "perf",
    "perf_reset",
    "tickers",
    "histograms",
    "events",
    "reset_statistics",
    "try_open",
];

/// What a command comes to: it failed as the database says, or it was not understood.
pub enum Stop {
    Failed(Error),
    Broken(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Broken(text)
    }
}

type Done = Result<(), Stop>;

#[derive(Default)]
pub struct Firn {
    root: PathBuf,
    dir: PathBuf,
    base: String,
    options: Options,
    family_options: BTreeMap<String, ColumnFamilyOptions>,
    read_only: bool,
    statistics: Arc<Statistics>,
    events: Arc<Events>,
    limiter: Option<Arc<GenericRateLimiter>>,
    // In this order: what reads from the database goes before it.
    cursors: BTreeMap<String, Cursor>,
    snapshots: BTreeMap<String, Snapshot>,
    exports: BTreeMap<String, ExportedColumnFamily>,
    families: BTreeMap<String, ColumnFamily>,
    db: Option<Db>,
    show_text: bool,
    answer: Vec<String>,
}

impl Engine for Firn {
    fn name(&self) -> &'static str {
        "firn"
    }

    fn run(&mut self, command: &str) -> Answer {
        self.answer.clear();
        match catch_unwind(AssertUnwindSafe(|| self.one(command))) {
            Ok(Ok(())) => {}
            Ok(Err(Stop::Failed(error))) => {
                let text = self.error(&error);
                self.say(text);
            }
            Ok(Err(Stop::Broken(text))) => self.say(format!("!! {text}")),
            Err(_) => return Answer::Died("Firn panicked".to_owned()),
        }
        Answer::from(Ok(std::mem::take(&mut self.answer)))
    }
}

/// `error: ` with the kind and its refinement as RocksDB has them, or with the whole text.
fn error_text(error: &Error, whole: bool) -> String {
    match error.subcode() {
        _ if whole => format!("error: {error}"),
        SubCode::None => format!("error: {}", error.kind().label()),
        subcode => format!("error: {}: {}", error.kind().label(), subcode.label()),
    }
}

impl Firn {
    fn one(&mut self, command: &str) -> Done {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let words = Words::parse(rest);
        self.show_text = words.has("text");
        if self.db.is_none() && !WITHOUT_DB.contains(&name) {
            self.say("error: not open");
            return Ok(());
        }
        match name {
            "start" => self.start(&words),
            "dir" => self.change_dir(&words),
            "open" => self.open(&words),
            "close" => Ok(self.close_all()?),
            "options" => self.set_family_options(&words),
            "destroy" => self.destroy(),
            "repair" => self.repair(),
            "list_families" => self.list_families(),
            "create_family" => self.create_family(&words),
            "drop_family" => self.drop_family(&words),
            "forget_family" => {
                words.families.iter().for_each(|name| drop(self.families.remove(name)));
                Ok(())
            }
            "put" | "merge" | "delete" | "single_delete" | "delete_range" => self.write_each(name, &words),
            "batch" => self.batch(&words),
            "get" => self.get(&words),
            "multi_get" => self.multi_get(&words),
            "operands" => self.operands(&words),
            "may_exist" => self.may_exist(&words),
            "scan" => self.scan(&words),
            "cursor" => self.new_cursor(&words),
            "drop_cursor" => {
                words.words().iter().for_each(|name| drop(self.cursors.remove(*name)));
                Ok(())
            }
            "walk" => self.walk(&words),
            "snapshot" => self.take_snapshot(&words),
            "release" => self.release(&words),
            "flush" => self.flush(&words),
            "compact_range" => self.compact_range(&words),
            "compact_files" => self.compact_files(&words),
            "delete_files" => self.delete_files(&words),
            "wait" => self.wait(),
            "levels" => self.levels(&words),
            "property" => self.property(&words),
            "int_property" => self.int_property(&words),
            "tickers" => self.tickers(&words),
            "histograms" => self.histograms(&words),
            "reset_statistics" => {
                self.statistics.reset();
                Ok(())
            }
            "perf" => self.perf(&words),
            "perf_reset" => {
                firndb::stats::set_perf_level(firndb::stats::PerfLevel::EnableCount);
                firndb::stats::reset_perf_context();
                Ok(())
            }
            "events" => self.take_events(&words),
            "sequence" => self.sequence(),
            "size_of" => self.size_of(&words),
            "limiter" => self.show_limiter(),
            "set_options" => self.set_options(&words),
            "set_db_options" => self.set_db_options(&words),
            "show_options" => self.show_options(&words),
            "sst" => self.write_sst(&words),
            "ingest" => self.ingest(&words),
            "ingest_all" => self.ingest_all(rest),
            "export" => self.export(&words),
            "import" => self.import(&words),
            "try_open" => self.try_open(&words),
            "checkpoint" => self.make_checkpoint(&words),
            "disable_deletions" => Ok(self.db().disable_file_deletions()?),
            "enable_deletions" => Ok(self.db().enable_file_deletions()?),
            "flush_wal" => Ok(self.db().flush_wal(words.flag("sync", false))?),
            "sync_wal" => Ok(self.db().sync_wal()?),
            "resume" => Ok(self.db().resume()?),
            "verify_checksum" => Ok(self.db().verify_checksum()?),
            "live_files" => self.live_files(&words),
            "wal_files" => self.wal_files(),
            _ => Err(Stop::Broken(format!("no command {name}"))),
        }
    }

    fn say(&mut self, line: impl Into<String>) {
        self.answer.push(line.into());
    }

    fn error(&self, error: &Error) -> String {
        error_text(error, self.show_text)
    }

    /// The open database; [`Firn::one`] refuses commands without one.
    fn db(&self) -> Db {
        self.db.clone().expect("an open database")
    }

    fn family_called(&self, name: &str) -> Parsed<ColumnFamily> {
        self.families.get(name).cloned().ok_or_else(|| format!("no family {name}"))
    }

    fn family(&self, words: &Words) -> Parsed<ColumnFamily> {
        self.family_called(words.families.first().map_or("default", String::as_str))
    }

    fn options_of(&self, name: &str) -> ColumnFamilyOptions {
        self.family_options.get(name).cloned().unwrap_or_else(|| self.options.cf.clone())
    }

    fn start(&mut self, words: &Words) -> Done {
        let _ = self.close_all();
        self.root = PathBuf::from(words.word(0)?);
        self.dir = self.root.join("db");
        words.word(1)?.clone_into(&mut self.base);
        self.options = Options::default();
        self.family_options.clear();
        self.read_only = false;
        self.events.take();
        Ok(())
    }

    fn change_dir(&mut self, words: &Words) -> Done {
        let _ = self.close_all();
        self.dir = self.root.join(words.word(0)?);
        Ok(())
    }

    fn open(&mut self, words: &Words) -> Done {
        let _ = self.close_all();
        if !words.has("again") {
            self.options = Options::default();
            apply(&mut self.options, &self.base)?;
            self.statistics = Arc::default();
            self.options.db.statistics = Some(Arc::clone(&self.statistics));
            self.options.db.listeners = vec![Arc::clone(&self.events) as _];
            self.family_options.clear();
            self.read_only = false;
        }
        if words.has("rate_limit") {
            let bytes_per_second = words.unsigned("rate_limit", 0)?;
            let options = RateLimiterOptions { bytes_per_second, ..RateLimiterOptions::default() };
            let options = RateLimiterOptions { mode: firn_env::RateLimiterMode::AllIo, ..options };
            let limiter = Arc::new(GenericRateLimiter::new(options, Env::default().clock().clone())?);
            self.options.db.rate_limiter = Some(Arc::clone(&limiter) as Arc<dyn RateLimiter>);
            self.limiter = Some(limiter);
        }
        self.read_only = words.flag("read_only", self.read_only);
        apply(&mut self.options, &words.rest)?;
        let families = self.descriptors(&words.families);
        let options = self.options.db.clone();
        let open = if self.read_only { Db::open_cf_read_only } else { Db::open_cf };
        let db = open(&self.dir, options, families)?;
        self.families = db.column_families().into_iter().map(|cf| (cf.name().to_owned(), cf)).collect();
        self.db = Some(db);
        Ok(())
    }

    /// The families to open: those named, or all that are there.
    fn descriptors(&self, names: &[String]) -> Vec<ColumnFamilyDescriptor> {
        let mut names = names.to_vec();
        if names.is_empty() {
            names = Db::list_column_families(&self.dir, &self.options.db).unwrap_or_else(|_| vec!["default".into()]);
        }
        names.iter().map(|name| ColumnFamilyDescriptor::new(name, self.options_of(name))).collect()
    }

    fn close_all(&mut self) -> firndb::Result<()> {
        self.cursors.clear();
        self.snapshots.clear();
        self.families.clear();
        self.db.take().map_or(Ok(()), |db| db.close())
    }

    fn set_family_options(&mut self, words: &Words) -> Done {
        for name in &words.families {
            let mut options = self.options.clone();
            apply(&mut options, &words.rest)?;
            self.family_options.insert(name.clone(), options.cf);
        }
        Ok(())
    }

    fn destroy(&mut self) -> Done {
        let _ = self.close_all();
        Ok(Db::destroy(&self.dir, &self.options)?)
    }

    fn repair(&mut self) -> Done {
        let _ = self.close_all();
        firndb::repair(&self.dir, &self.options)?;
        Ok(())
    }

    fn list_families(&mut self) -> Done {
        let names = Db::list_column_families(&self.dir, &self.options.db)?;
        self.say(names.join(" "));
        Ok(())
    }

    fn create_family(&mut self, words: &Words) -> Done {
        for name in &words.families {
            let mut options = self.options_of(name);
            if !words.rest.is_empty() {
                let mut changed = self.options.clone();
                apply(&mut changed, &words.rest)?;
                options = changed.cf;
                self.family_options.insert(name.clone(), options.clone());
            }
            let family = self.db().create_cf(name, options)?;
            self.families.insert(name.clone(), family);
        }
        Ok(())
    }

    fn drop_family(&mut self, words: &Words) -> Done {
        for name in &words.families {
            if let Err(error) = self.db().drop_cf(&self.family_called(name)?) {
                let text = self.error(&error);
                self.say(text);
            }
        }
        Ok(())
    }
}

/// Applies an option string with options of databases and of column families; all or none take effect.
fn apply(options: &mut Options, text: &str) -> firndb::Result<()> {
    let config = ConfigOptions::default();
    let mut changed = options.clone();
    for (name, value) in parse_map(text)? {
        if firndb::DbOptions::knows(&name) {
            changed.db.set_text(&name, &value, &config)?;
        } else {
            changed.cf.set_text(&name, &value, &config)?;
        }
    }
    *options = changed;
    Ok(())
}
