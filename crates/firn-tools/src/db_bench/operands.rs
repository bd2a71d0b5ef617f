//! `getmergeoperands`: what reading the operands of a key saves over reading their merge.

use super::harness::{Failure, Worker};
use super::reads::read_failure;

/// The merge operator of [`get_merge_operands`], as `--merge_operator` names it.
pub const SORT_LIST: &str = "sortlist";

const KEY: &[u8] = b"my_key";
/// Lists that are merged into [`KEY`], and numbers in each.
const LISTS: u32 = 999;
const LIST_LENGTH: u32 = 100;
/// How many numbers and lists are shown.
const SHOWN_NUMBERS: usize = 5;
const SHOWN_LISTS: usize = 4;

/// The numbers of list `index`: each list goes on where the one before it ended.
fn list(index: u32) -> String {
    let first = index * LIST_LENGTH + 1;
    (first..first + LIST_LENGTH).map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

/// One key that many sorted lists were merged into, read merged and read as the lists that they are.
pub fn get_merge_operands(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let bench = worker.job.bench;
    let db = worker.select_db();
    let (read, write) = (bench.engine.read_options(), bench.engine.write_options(worker.job.setup));
    for index in 0..LISTS {
        db.merge(&write, 0, KEY, list(index).as_bytes()).map_err(|e| Failure::new("merge error", &e))?;
    }
    let seconds = |from: u64| (worker.clock().now_nanos() - from) as f64 / 1e9;

    let start = worker.clock().now_nanos();
    let value = db.get(&read, 0, KEY).map_err(|e| read_failure("Get", &e))?;
    let taken = seconds(start);
    println!("--- Get API call --- \nFound key? {}\nGet: {taken:.6} seconds", u8::from(value.is_some()));
    let text = value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let sample: String = text.split(',').take(SHOWN_NUMBERS).map(|number| format!("{number},")).collect();
    println!("Sample data from Get API call: {sample}");

    let start = worker.clock().now_nanos();
    let operands = db.merge_operands(&read, 0, KEY).map_err(|e| read_failure("GetMergeOperands", &e))?;
    let taken = seconds(start);
    println!("--- GetMergeOperands API --- \nFound key? {}", u8::from(!operands.is_empty()));
    print!("Get Merge operands: {taken} seconds \nSample data from GetMergeOperands API call: ");
    for (index, operand) in operands.iter().take(SHOWN_LISTS).enumerate() {
        let text = String::from_utf8_lossy(operand);
        let numbers: Vec<&str> = text.split(',').take(SHOWN_NUMBERS).collect();
        println!("List: {index} : {}", numbers.join(","));
    }
    Ok(())
}
