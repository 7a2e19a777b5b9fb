//! The steps that are counted: each prepares what it needs, then does its work inside one function that
//! callgrind can tell from all others.

use std::hint::black_box;

use registrar_benches::path::Path;
use registrar_benches::reviews::{CASES, Case};

/// One step of one review.
pub(crate) struct Step {
    work: Work,
    case: Case,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Read,
    Decide,
    Answer,
}

impl Step {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let works = [Work::Read, Work::Decide, Work::Answer].into_iter();
        works.flat_map(|work| CASES.map(|case| Self { work, case })).collect()
    }

    /// Its name in the file of accepted figures.
    pub(crate) fn name(&self) -> String {
        let work = match self.work {
            Work::Read => "read",
            Work::Decide => "decide",
            Work::Answer => "answer",
        };
        format!("{work} {}", self.case)
    }

    /// Does it once.
    pub(crate) fn run(&self) {
        let path = Path::default();
        let body = &self.case.body();
        let request = path.read(body);
        let decision = path.decide(&request);
        let work: Box<dyn Fn()> = match self.work {
            Work::Read => Box::new(|| drop(black_box(path.read(black_box(body))))),
            Work::Decide => Box::new(|| drop(black_box(path.decide(black_box(&request))))),
            Work::Answer => {
                Box::new(|| drop(black_box(path.answer(black_box(&request), black_box(&decision)))))
            }
        };
        // Once for what only the first call does: symbols are bound, arenas are made.
        work();
        counted(&work);
    }
}

/// What callgrind counts; see [`super::callgrind::COUNTED`].
#[inline(never)]
fn counted(work: &dyn Fn()) {
    work();
    // Keeps the call above from becoming a jump that leaves this function for good.
    black_box(());
}
