//! What the README tells a newcomer to type first does what it says.

use std::process::Command;

const README: &str = include_str!("../README.md");

/// The lines of a text without the blanks at their ends, which Markdown should not have.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}

#[test]
fn the_demo_prints_what_the_readme_shows() {
    let (_, behind) = README.split_once("$ cargo run --release -- demo\n```\n\n```text\n").expect("the demo");
    let (shown, _) = behind.split_once("```").expect("the end of what it prints");
    let ran = Command::new(env!("CARGO_BIN_EXE_isvc-registrar")).arg("demo").output().expect("the program");
    let printed = String::from_utf8(ran.stdout).expect("text");
    assert!(ran.status.success(), "the demo failed: {}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(lines(printed.trim()), lines(shown.trim()));
}

#[test]
fn cargo_run_runs_the_program() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--", "--version"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // What cargo tells a test of its package. Some build scripts want a rebuild when it is there.
    for (variable, _) in std::env::vars() {
        if variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(variable);
        }
    }
    let cargo = cargo.output().expect("cargo");
    let said = String::from_utf8_lossy(&cargo.stderr);
    assert!(cargo.status.success(), "cargo run, without more, should run isvc-registrar: {said}");
    assert!(cargo.stdout.starts_with(b"isvc-registrar "), "{}", String::from_utf8_lossy(&cargo.stdout));
}
