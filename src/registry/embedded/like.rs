//! SQL's LIKE: a pattern goes in, whether a name matches comes out.
//!
//! What stays true: `%` is any run of characters, `_` any one, and a backslash makes the next one plain.
//! The registry finds by LIKE, so a name with an underscore finds more than itself unless it is escaped.

/// A pattern, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Plain(char),
    AnyOne,
    AnyRun,
}

impl Pattern {
    /// Reads a pattern; every text is one.
    pub(super) fn new(text: &str) -> Self {
        let mut pieces = Vec::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            pieces.push(match character {
                '%' => Piece::AnyRun,
                '_' => Piece::AnyOne,
                // A backslash at the very end stands for itself.
                '\\' => Piece::Plain(characters.next().unwrap_or('\\')),
                plain => Piece::Plain(plain),
            });
        }
        Self(pieces)
    }

    /// The plain characters that every match begins with, and whether they are the whole pattern.
    pub(super) fn prefix(&self) -> (String, bool) {
        let prefix: String = self
            .0
            .iter()
            .map_while(|piece| match piece {
                Piece::Plain(character) => Some(*character),
                Piece::AnyOne | Piece::AnyRun => None,
            })
            .collect();
        let whole = self.0.iter().all(|piece| matches!(piece, Piece::Plain(_)));
        (prefix, whole)
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut piece) = (0, 0);
        // Where to go on when a run turns out to have been too short: the piece after it, and the end of the run.
        let mut retry: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.0.get(piece) {
                Some(Piece::AnyRun) => {
                    piece += 1;
                    retry = Some((piece, at));
                    continue;
                }
                Some(Piece::AnyOne) => {}
                Some(Piece::Plain(character)) if *character == text[at] => {}
                _ => {
                    let Some((after_run, run_end)) = retry else {
                        return false;
                    };
                    piece = after_run;
                    at = run_end + 1;
                    retry = Some((after_run, at));
                    continue;
                }
            }
            at += 1;
            piece += 1;
        }
        self.0[piece..].iter().all(|piece| *piece == Piece::AnyRun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_in_sql() {
        for (pattern, text, matches) in [
            ("team-a", "team-a", true),
            ("team-a", "team-ab", false),
            ("team_a", "team-a", true),
            ("team_a", "teama", false),
            (r"team\_a", "team_a", true),
            (r"team\_a", "team-a", false),
            ("team%", "team", true),
            ("team%", "team-a", true),
            ("%-a", "team-a-a", true),
            ("%a%b", "xaxxbxb", true),
            ("%a%b", "xaxxbx", false),
            (r"50\%", "50%", true),
            (r"50\%", "500", false),
            (r"a\\b", r"a\b", true),
            ("", "", true),
            ("%", "", true),
            ("_", "ü", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), matches, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn the_plain_beginning_is_found() {
        assert_eq!(Pattern::new(r"a\_b").prefix(), ("a_b".to_owned(), true));
        assert_eq!(Pattern::new("a_b").prefix(), ("a".to_owned(), false));
        assert_eq!(Pattern::new("%").prefix(), (String::new(), false));
    }
}
