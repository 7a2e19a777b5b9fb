//! The grammar of a filter: text goes in, comparisons put together by AND, OR and parentheses come out.
//!
//! What stays true: AND binds closer than OR, keywords are read in any case, and no input nests deeper than the
//! stack allows.

use super::Expression;
use super::token::{Token, tokens};

/// Nobody writes more parentheses than this by hand.
const MAX_DEPTH: usize = 32;

/// One comparison, not yet checked against a kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) property: String,
    /// What follows the property's point: `string_value` and the like.
    pub(super) value_type: Option<String>,
    pub(super) operator: Operator,
    /// More than one only behind IN.
    pub(super) values: Vec<Literal>,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    LikeAnyCase,
    In,
}

/// A value in a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// Reads a filter.
pub(super) fn parse(text: &str) -> Result<Expression<Comparison>, String> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable() };
    let expression = parser.any(0)?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(token) => Err(format!("unexpected token {token:?}")),
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    fn any(&mut self, depth: usize) -> Result<Expression<Comparison>, String> {
        let mut parts = vec![self.all(depth)?];
        while self.skip_keyword("OR") {
            parts.push(self.all(depth)?);
        }
        Ok(join(parts, Expression::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expression<Comparison>, String> {
        let mut parts = vec![self.term(depth)?];
        while self.skip_keyword("AND") {
            parts.push(self.term(depth)?);
        }
        Ok(join(parts, Expression::All))
    }

    fn term(&mut self, depth: usize) -> Result<Expression<Comparison>, String> {
        if self.skip(&Token::Open) {
            if depth == MAX_DEPTH {
                return Err("too many parentheses".to_owned());
            }
            let inner = self.any(depth + 1)?;
            self.expect(&Token::Close)?;
            return Ok(inner);
        }
        self.comparison().map(Expression::One)
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let property = match self.tokens.next() {
            Some(Token::Word(word) | Token::Escaped(word)) => word,
            other => return Err(unexpected(other.as_ref(), "a property")),
        };
        let value_type = if self.skip(&Token::Dot) {
            match self.tokens.next() {
                Some(Token::Word(word)) => Some(word.to_ascii_lowercase()),
                other => return Err(unexpected(other.as_ref(), "a value type")),
            }
        } else {
            None
        };
        let operator = self.operator()?;
        let values = if operator == Operator::In && self.skip(&Token::Open) {
            let mut values = vec![self.literal()?];
            while self.skip(&Token::Comma) {
                values.push(self.literal()?);
            }
            self.expect(&Token::Close)?;
            values
        } else {
            vec![self.literal()?]
        };
        Ok(Comparison { property, value_type, operator, values })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.tokens.next();
        Ok(match &token {
            Some(Token::Operator("=")) => Operator::Equal,
            Some(Token::Operator("!=" | "<>")) => Operator::NotEqual,
            Some(Token::Operator("<")) => Operator::Less,
            Some(Token::Operator("<=")) => Operator::LessOrEqual,
            Some(Token::Operator(">")) => Operator::Greater,
            Some(Token::Operator(">=")) => Operator::GreaterOrEqual,
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("LIKE") => Operator::Like,
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("ILIKE") => Operator::LikeAnyCase,
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("IN") => Operator::In,
            other => return Err(unexpected(other.as_ref(), "an operator")),
        })
    }

    fn literal(&mut self) -> Result<Literal, String> {
        Ok(match self.tokens.next() {
            Some(Token::Text(text)) => Literal::Text(text),
            Some(Token::Int(int)) => Literal::Int(int),
            Some(Token::Float(float)) => Literal::Float(float),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("true") => Literal::Bool(true),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("false") => Literal::Bool(false),
            other => return Err(unexpected(other.as_ref(), "a value; a text needs quotes")),
        })
    }

    fn skip(&mut self, token: &Token) -> bool {
        self.tokens.next_if_eq(token).is_some()
    }

    fn skip_keyword(&mut self, keyword: &str) -> bool {
        self.tokens
            .next_if(|token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case(keyword)))
            .is_some()
    }

    fn expect(&mut self, token: &Token) -> Result<(), String> {
        if self.skip(token) { Ok(()) } else { Err(unexpected(self.tokens.peek(), &format!("{token:?}"))) }
    }
}

/// One part stands for itself.
fn join(
    mut parts: Vec<Expression<Comparison>>,
    together: fn(Vec<Expression<Comparison>>) -> Expression<Comparison>,
) -> Expression<Comparison> {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            together(parts)
        }
        None => together(parts),
    }
}

fn unexpected(token: Option<&Token>, wanted: &str) -> String {
    token.map_or_else(
        || format!("it ends where {wanted} should be"),
        |token| format!("unexpected token {token:?}, expected {wanted}"),
    )
}
