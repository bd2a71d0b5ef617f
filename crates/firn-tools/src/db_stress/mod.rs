//! `db_stress`: random operations under random options, killed and restarted, verified against a state kept outside.
//!
//! In: the command line. Out: lines about what happens on stdout; on stderr nothing while all is well, `Verification failed
//! :(` and what is wrong otherwise, with exit status 1. Threads own ranges of keys, so each knows exactly what every read of
//! its range must show; [`expected`] keeps what they do where a kill of the process cannot take it, and [`verify`] judges
//! after a restart what survived. [`driver`] kills.

pub mod contents;
pub mod driver;
pub mod expected;
pub mod life;
pub mod reads;
pub mod setup;
pub mod stress_flags;
pub mod verify;
pub mod worker;

use std::io::Write;

use firn_env::Env;

use self::life::Life;
use self::stress_flags::StressFlags;
use crate::ROCKSDB_VERSION;
use crate::flags::{self, Outcome, Program};

/// Runs the tool; returns the exit status.
pub fn main(arguments: &[String]) -> i32 {
    let program = Program {
        name: "db_stress",
        version: ROCKSDB_VERSION,
        usage: "db_stress --db=<directory> [--kills=2000 --interval=1000]",
    };
    let env = Env::shared();
    let flags = match flags::parse::<StressFlags>(program, arguments, &flags::Outside(&env)) {
        Outcome::Run { flags, .. } => *flags,
        Outcome::Print { text, status } => {
            print_line(&text);
            return status;
        }
        Outcome::Fail { text } => return fail(&text),
    };
    match run(env, &flags) {
        Ok(()) => 0,
        Err(text) => fail(&format!("{text}\nVerification failed :(")),
    }
}

fn run(env: Env, flags: &StressFlags) -> Result<(), String> {
    if flags.db.is_empty() {
        return Err("--db is missing".to_owned());
    }
    let percents = flags.readpercent
        + flags.prefixpercent
        + flags.writepercent
        + flags.delpercent
        + flags.delrangepercent
        + flags.iterpercent
        + flags.customopspercent;
    if percents != 100 {
        return Err(format!("Error: Read({}%)+Write... percents != 100!: {percents}", flags.readpercent));
    }
    if flags.kills == 0 {
        return Life::new(env, flags.clone(), print_line)?.run();
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    print_line(&format!("db_stress {}", driver::command_line(flags).join(" ")));
    let tally = driver::run(&env, &program, flags, print_line)?;
    print_line(&format!(
        "{} kills, {} of them before the first operation, {} processes that ended by themselves: no violation",
        tally.kills, tally.during_recovery, tally.ended
    ));
    Ok(())
}

/// Whole lines, at once, so that whoever kills sees how far this is.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn fail(text: &str) -> i32 {
    let _ = writeln!(std::io::stderr(), "{text}");
    1
}
