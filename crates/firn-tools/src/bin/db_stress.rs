//! The `db_stress` command; everything is in [`firn_tools::db_stress`].

fn main() {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    std::process::exit(firn_tools::db_stress::main(&arguments));
}
