//! Whoever reads a warning in the log finds it in the documentation, with its cause.

use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] =
    [include_str!("../docs/troubleshooting.md"), include_str!("../docs/certificates.md")];

/// What begins a line of the log that somebody has to look at.
const MACROS: [&str; 2] = ["tracing::warn!(", "tracing::error!("];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text of the literal that the message is: the last one of the macro.
fn message(call: &str) -> String {
    let mut depth = 1;
    let mut literals = Vec::new();
    let mut characters = call.chars();
    while let Some(character) = characters.next() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            '"' => literals.push(literal(&mut characters)),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    literals.pop().unwrap_or_default()
}

/// A literal up to its closing quote. A line that ends in a backslash goes on with the next one's first word.
fn literal(characters: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('\n') => {
                    let rest = characters.as_str().trim_start();
                    *characters = rest.chars();
                }
                Some(escaped) => text.push(escaped),
                None => {}
            },
            character => text.push(character),
        }
    }
    text
}

#[test]
fn every_warning_is_explained() {
    let mut files = Vec::new();
    sources(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path(), &mut files);
    let mut warnings = 0;
    for file in files {
        let source = fs::read_to_string(&file).expect("it can be read");
        for start in MACROS {
            for call in source.split(start).skip(1) {
                let message = message(call);
                // What comes behind a placeholder differs from line to line.
                let fixed = message.split('{').next().unwrap_or_default().trim_end();
                warnings += 1;
                assert!(
                    PAGES.iter().any(|page| page.contains(fixed)),
                    "docs/troubleshooting.md does not explain {message:?} of {}",
                    file.display()
                );
            }
        }
    }
    assert!(warnings > 0, "no warning was found in the sources");
}
