//! Hints: `/*+ NAME('key' = 'value', ...) */` comments in a query.
//!
//! A hint is honoured or refused, never dropped. To `sqlparser` it is a comment, so hints are read from a
//! query's tokens: where one stands (right after SELECT, right after JOIN) is part of what it says.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

use super::dialect::{WeirDialect, is_word};
use super::parse::{Cursor, place};
use super::statement::{Hint, SqlOption};
use crate::error::{Error, Result};

/// The text between `/*+` and `*/`, where a token is a hint comment.
pub(super) fn hint_text(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(comment)) => comment.strip_prefix('+'),
        _ => None,
    }
}

/// What a hint comment stands right after.
#[derive(Clone, Copy)]
enum Place {
    Select,
    Join(usize),
    Elsewhere,
}

/// All hints among the tokens of one query, in the order of the text, and how many JOIN keywords there are.
pub(super) fn collect<'a>(tokens: impl Iterator<Item = &'a TokenWithSpan>) -> Result<(Vec<Hint>, usize)> {
    let mut hints = Vec::new();
    let mut joins = 0;
    let mut stands = Place::Elsewhere;
    let mut previous: Option<&TokenWithSpan> = None;
    for token in tokens {
        if let Some(text) = hint_text(token) {
            for (name, arguments) in read(text, token.span.start)? {
                hints.push(interpret(name, arguments, stands, token.span.start)?);
            }
        } else if !matches!(token.token, Token::Whitespace(_)) {
            // `t.join` and `AS join` are names.
            let is_name = previous.is_some_and(|previous| previous.token == Token::Period || is_word(previous, "AS"));
            stands = if is_word(token, "SELECT") {
                Place::Select
            } else if is_word(token, "JOIN") && !is_name {
                joins += 1;
                Place::Join(joins - 1)
            } else {
                Place::Elsewhere
            };
            previous = Some(token);
        }
    }
    Ok((hints, joins))
}

/// Refuses the hints among tokens that belong to no query.
pub(super) fn refuse<'a>(tokens: impl Iterator<Item = &'a TokenWithSpan>) -> Result<()> {
    for token in tokens {
        let Some(text) = hint_text(token) else { continue };
        if let Some((name, _)) = read(text, token.span.start)?.into_iter().next() {
            return Err(Error::unsupported(format!(
                "hint {name} outside a query{}; a hint stands right after SELECT or JOIN",
                at(token.span.start)
            )));
        }
    }
    Ok(())
}

fn interpret(name: String, arguments: Option<Vec<SqlOption>>, stands: Place, location: Location) -> Result<Hint> {
    match (name.to_ascii_uppercase().as_str(), stands) {
        ("STATE_TTL", Place::Select) => Ok(Hint::StateTtl(key_values(&name, arguments, location)?)),
        ("OPTIONS", Place::Join(join)) => Ok(Hint::JoinOptions { join, options: key_values(&name, arguments, location)? }),
        ("STATE_TTL", _) => Err(misplaced(&name, "SELECT", location)),
        ("OPTIONS", _) => Err(misplaced(&name, "JOIN", location)),
        _ => Ok(Hint::Other(name)),
    }
}

fn key_values(name: &str, arguments: Option<Vec<SqlOption>>, location: Location) -> Result<Vec<SqlOption>> {
    arguments.ok_or_else(|| place(Error::invalid(format!("hint {name} takes 'key' = 'value' pairs")), location))
}

fn misplaced(name: &str, after: &str, location: Location) -> Error {
    Error::unsupported(format!("hint {name}{}; it stands right after {after}", at(location)))
}

fn at(location: Location) -> String {
    format!(" at line {}, column {}", location.line, location.column)
}

/// The hints of one comment: names, each with its pairs where what stands in its parentheses is pairs.
fn read(text: &str, location: Location) -> Result<Vec<(String, Option<Vec<SqlOption>>)>> {
    read_all(text).map_err(|error| match error {
        Error::Syntax { message, .. } => {
            Error::Syntax { message: format!("in a hint: {message}"), line: location.line, column: location.column }
        }
        other => other,
    })
}

fn read_all(text: &str) -> Result<Vec<(String, Option<Vec<SqlOption>>)>> {
    let tokens = Tokenizer::new(&WeirDialect, text).tokenize_with_location().map_err(|error| Error::Syntax {
        message: error.message,
        line: error.location.line,
        column: error.location.column,
    })?;
    let mut cursor = Cursor::new(Parser::new(&WeirDialect).with_tokens_with_locations(tokens));
    let mut hints = Vec::new();
    while !cursor.at_end() {
        let Token::Word(word) = cursor.peek().token.clone() else { return cursor.expected("the name of a hint") };
        cursor.advance();
        hints.push((word.value, arguments(&mut cursor)?));
        cursor.accept_token(&Token::Comma);
    }
    Ok(hints)
}

/// `('k' = 'v', ...)` as pairs; anything else in parentheses is skipped as a whole, for a hint that will be refused by name.
fn arguments(cursor: &mut Cursor) -> Result<Option<Vec<SqlOption>>> {
    if cursor.peek().token != Token::LParen {
        return Ok(None);
    }
    if matches!(cursor.peek_nth(2).token, Token::Eq | Token::Period) {
        return cursor.options().map(Some);
    }
    let mut depth = 0;
    loop {
        match cursor.peek().token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return cursor.expected(")"),
            _ => {}
        }
        cursor.advance();
        if depth == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(sql: &str) -> Result<Vec<Hint>> {
        let tokens = Tokenizer::new(&WeirDialect, sql).tokenize_with_location().expect("the test's SQL has good tokens");
        collect(tokens.iter()).map(|(hints, _)| hints)
    }

    fn option(name: &str, value: &str) -> SqlOption {
        SqlOption { name: name.into(), value: value.into() }
    }

    #[test]
    fn a_ttl_hint_after_select_keeps_its_names_and_figures() {
        let found = hints("SELECT /*+ STATE_TTL('o' = '3d', 'l' = '1d') */ * FROM o").unwrap();
        assert_eq!(found, [Hint::StateTtl(vec![option("o", "3d"), option("l", "1d")])]);
    }

    #[test]
    fn join_hints_are_numbered_by_join_keyword_with_other_comments_between() {
        let found = hints(
            "SELECT a.join AS join FROM a JOIN b ON x LEFT JOIN -- sides
             /*+ OPTIONS('state.ttl.left'='60S') */ c ON y JOIN /*+ OPTIONS('state.ttl.right' = '9 s') */ d",
        );
        let expected = [
            Hint::JoinOptions { join: 1, options: vec![option("state.ttl.left", "60S")] },
            Hint::JoinOptions { join: 2, options: vec![option("state.ttl.right", "9 s")] },
        ];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn an_unknown_hint_is_there_by_name_whatever_its_arguments() {
        let found = hints("SELECT /*+ BROADCAST(a, (b)), NO_MERGE LOOKUP('t' = 'x') */ 1 /*+ last */").unwrap();
        let names = ["BROADCAST", "NO_MERGE", "LOOKUP", "last"].map(|name| Hint::Other(name.into()));
        assert_eq!(found, names);
    }

    #[test]
    fn two_hints_in_one_comment_are_two_hints() {
        let found = hints("SELECT /*+ BROADCAST(a), STATE_TTL('a' = '1d') */ 1").unwrap();
        assert_eq!(found, [Hint::Other("BROADCAST".into()), Hint::StateTtl(vec![option("a", "1d")])]);
    }

    #[test]
    fn a_known_hint_in_a_wrong_place_is_an_error_that_says_the_right_one() {
        let after_join = hints("SELECT 1 FROM a JOIN /*+ STATE_TTL('a' = '1d') */ b").unwrap_err().to_string();
        assert!(after_join.contains("STATE_TTL at line 1, column 22") && after_join.contains("after SELECT"), "{after_join}");
        let after_table = hints("SELECT 1 FROM a /*+ OPTIONS('a' = 'b') */").unwrap_err().to_string();
        assert!(after_table.contains("OPTIONS") && after_table.contains("after JOIN"), "{after_table}");
    }

    #[test]
    fn what_does_not_parse_as_a_hint_is_an_error_at_the_comment() {
        for sql in ["SELECT\n  /*+ 12 */ 1", "SELECT\n  /*+ STATE_TTL('a' = ) */ 1", "SELECT\n  /*+ X( */ 1", "SELECT\n  /*+ X('a */ 1"] {
            let error = hints(sql).unwrap_err();
            assert!(matches!(error, Error::Syntax { line: 2, column: 3, .. }), "{sql}: {error:?}");
        }
        assert!(hints("SELECT /*+ STATE_TTL */ 1").unwrap_err().to_string().contains("STATE_TTL"));
    }

    #[test]
    fn a_plain_comment_is_no_hint() {
        assert_eq!(hints("SELECT /* STATE_TTL('a' = '1d') */ 1 -- + X").unwrap(), []);
        assert_eq!(hints("SELECT /*+ */ 1").unwrap(), []);
    }
}
