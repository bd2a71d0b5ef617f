//! The cargo features of compression types: switching one off leaves its library out of the build.

use std::process::Command;

/// Libraries of compression types, by feature.
const LIBRARIES: [(&str, &[&str]); 5] = [
    ("snappy", &["snap"]),
    ("zlib", &["flate2", "libz-sys"]),
    ("bzip2", &["bzip2", "libbz2-rs-sys"]),
    ("lz4", &["lzzzz"]),
    ("zstd", &["zstd", "zstd-safe", "zstd-sys"]),
];

/// The packages that are built for a program that uses `firndb` with these features.
fn packages(features: &[&str]) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--package=firndb", "--edges=normal", "--prefix=none", "--locked", "--offline"]);
    command.args(features).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> = text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    assert!(names.iter().any(|name| name == "firn-format"), "{text}");
    names
}

#[test]
fn a_compression_type_that_is_off_brings_no_library() {
    let has = |packages: &[String], library: &str| packages.iter().any(|name| name == library);
    let (all, none) = (packages(&[]), packages(&["--no-default-features"]));
    for (feature, libraries) in LIBRARIES {
        let features = format!("--features={feature}");
        let one = packages(&["--no-default-features", &features]);
        for library in libraries {
            assert!(has(&all, library), "{library} is not there by default");
            assert!(!has(&none, library), "{library} is there without features");
            assert!(has(&one, library), "{library} is not there with {feature}");
        }
        for (other, libraries) in LIBRARIES.iter().filter(|(other, _)| *other != feature) {
            assert!(!libraries.iter().any(|library| has(&one, library)), "{other} comes with {feature}");
        }
    }
}
