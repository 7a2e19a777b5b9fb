//! The words of a filter: text goes in, tokens come out.
//!
//! What stays true: a quoted text ends at the next quote of its kind that has no backslash before it. A doubled
//! quote is no escape: it ends one text and begins another.

use std::iter::Peekable;
use std::str::Chars;

/// One word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A bare word: a property, a keyword, true or false.
    Word(String),
    /// A property in backticks.
    Escaped(String),
    Text(String),
    Int(i64),
    Float(f64),
    /// `=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`.
    Operator(&'static str),
    Open,
    Close,
    Dot,
    Comma,
}

/// Cuts a filter into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&character) = rest.peek() {
        let token = match character {
            c if c.is_whitespace() => {
                rest.next();
                continue;
            }
            '\'' | '"' => Token::Text(quoted(&mut rest)?),
            '`' => Token::Escaped(quoted(&mut rest)?),
            c if c.is_ascii_alphabetic() || c == '_' => {
                Token::Word(run(&mut rest, |c| c.is_ascii_alphanumeric() || c == '_'))
            }
            c if c.is_ascii_digit() || c == '-' || c == '+' => number(&mut rest)?,
            '.' => {
                // A number may begin with its point.
                let mut ahead = rest.clone();
                ahead.next();
                if ahead.peek().is_some_and(char::is_ascii_digit) {
                    number(&mut rest)?
                } else {
                    rest.next();
                    Token::Dot
                }
            }
            '(' | ')' | ',' => {
                rest.next();
                match character {
                    '(' => Token::Open,
                    ')' => Token::Close,
                    _ => Token::Comma,
                }
            }
            _ => operator(&mut rest)?,
        };
        found.push(token);
    }
    Ok(found)
}

/// The text between two quotes. A backslash makes a quote or another backslash plain, and stays before anything
/// else: there it is for LIKE.
fn quoted(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let quote = rest.next();
    let mut text = String::new();
    while let Some(character) = rest.next() {
        if Some(character) == quote {
            return Ok(text);
        }
        if character == '\\' {
            match rest.next() {
                Some(escaped @ ('\'' | '"' | '`' | '\\')) => text.push(escaped),
                Some(other) => text.extend(['\\', other]),
                None => break,
            }
        } else {
            text.push(character);
        }
    }
    Err("a quoted text has no end".to_owned())
}

fn number(rest: &mut Peekable<Chars<'_>>) -> Result<Token, String> {
    let mut text = String::new();
    while let Some(&character) = rest.peek() {
        // A sign stands at the beginning or in an exponent; anywhere else another token begins.
        let sign = matches!(character, '+' | '-') && matches!(text.chars().last(), None | Some('e' | 'E'));
        if !(sign || character.is_ascii_digit() || matches!(character, '.' | 'e' | 'E')) {
            break;
        }
        text.push(character);
        rest.next();
    }
    if let Ok(int) = text.parse() {
        return Ok(Token::Int(int));
    }
    text.parse().map(Token::Float).map_err(|_| format!("{text:?} is not a number"))
}

fn operator(rest: &mut Peekable<Chars<'_>>) -> Result<Token, String> {
    let text = run(rest, |c| matches!(c, '=' | '!' | '<' | '>'));
    ["=", "!=", "<>", "<", "<=", ">", ">="]
        .into_iter()
        .find(|operator| *operator == text)
        .map(Token::Operator)
        .ok_or_else(|| {
            let unexpected = rest.peek().map_or(text, char::to_string);
            format!("unexpected token {unexpected:?}")
        })
}

fn run(rest: &mut Peekable<Chars<'_>>, belongs: impl Fn(char) -> bool) -> String {
    let mut text = String::new();
    while let Some(character) = rest.next_if(|character| belongs(*character)) {
        text.push(character);
    }
    text
}
