//! Times of the steps of a review, for reviews of three sizes: a CREATE that gets a patch, an UPDATE that is let
//! through.

use divan::{Bencher, black_box};
use registrar_benches::path::Path;
use registrar_benches::reviews::{CASES, Case};

fn main() {
    divan::main();
}

#[divan::bench(args = CASES)]
fn read(bencher: Bencher<'_, '_>, case: Case) {
    let path = Path::default();
    let body = case.body();
    bencher.bench(|| path.read(black_box(&body)));
}

#[divan::bench(args = CASES)]
fn decide(bencher: Bencher<'_, '_>, case: Case) {
    let path = Path::default();
    let request = path.read(&case.body());
    bencher.bench(|| path.decide(black_box(&request)));
}

#[divan::bench(args = CASES)]
fn answer(bencher: Bencher<'_, '_>, case: Case) {
    let path = Path::default();
    let request = path.read(&case.body());
    let decision = path.decide(&request);
    bencher.bench(|| path.answer(black_box(&request), black_box(&decision)));
}
