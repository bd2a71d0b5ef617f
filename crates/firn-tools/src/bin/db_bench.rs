//! The `db_bench` command; everything is in [`firn_tools::db_bench`].

fn main() {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    std::process::exit(firn_tools::db_bench::main(&arguments));
}
