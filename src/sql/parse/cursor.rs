//! The words, names and options that statements are made of, read off `sqlparser`'s token stream.

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};

use super::dropped::refuse_dropped;
use crate::error::{Error, Result};
use crate::sql::dialect::is_word;
use crate::sql::hints;
use crate::sql::statement::{Hint, SqlOption};

/// How deep expressions and subqueries may nest, which bounds the stack that parsing takes.
pub(super) const NESTING: usize = 50;

/// A position in the tokens of a script. Words are matched in any case, and only where they are not quoted.
pub(in crate::sql) struct Cursor {
    pub(super) parser: Parser<'static>,
    /// Tokens before this one have had their hints taken or refused.
    hints_seen: usize,
}

impl Cursor {
    pub fn new(parser: Parser<'static>) -> Self {
        Cursor { parser: parser.with_recursion_limit(NESTING), hints_seen: 0 }
    }

    /// The next token that is not white space.
    pub fn peek(&self) -> &TokenWithSpan {
        self.parser.peek_token_ref()
    }

    pub fn peek_nth(&self, n: usize) -> &TokenWithSpan {
        self.parser.peek_nth_token_ref(n)
    }

    pub fn advance(&mut self) {
        self.parser.advance_token();
    }

    pub fn at_end(&self) -> bool {
        self.peek().token == Token::EOF
    }

    /// Whether these words come next.
    pub fn at(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(n, word)| is_word(self.peek_nth(n), word))
    }

    /// Takes these words if all of them come next.
    pub fn accept(&mut self, words: &[&str]) -> bool {
        let found = self.at(words);
        if found {
            words.iter().for_each(|_| self.advance());
        }
        found
    }

    pub fn accept_token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub fn expect(&mut self, words: &[&str]) -> Result<()> {
        if self.accept(words) { Ok(()) } else { self.expected(&words.join(" ")) }
    }

    pub fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.accept_token(token) { Ok(()) } else { self.expected(&token.to_string()) }
    }

    /// The syntax error that the next token is.
    pub fn expected<T>(&self, what: &str) -> Result<T> {
        let found = self.peek();
        Err(place(
            Error::Syntax { message: format!("expected {what}, found {}", describe(&found.token)), line: 0, column: 0 },
            found.span.start,
        ))
    }

    /// The word that comes next in upper case, if one does that is not quoted.
    pub fn keyword(&self) -> Option<String> {
        match &self.peek().token {
            Token::Word(Word { value, quote_style: None, .. }) => Some(value.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// A name of one part, in the catalog's case: quoted as it is, else in lower case.
    pub fn name(&mut self, kind: &str) -> Result<String> {
        let Token::Word(word) = &self.peek().token else { return self.expected(&format!("the name of {kind}")) };
        let name = fold(word);
        self.advance();
        if self.peek().token == Token::Period {
            return Err(Error::unsupported(format!("a name of several parts, {name}.{}: names have one part", self.peek_nth(1))));
        }
        Ok(name)
    }

    /// `'text'`.
    pub fn string(&mut self, what: &str) -> Result<String> {
        let Token::SingleQuotedString(text) = &self.peek().token else { return self.expected(what) };
        let text = text.clone();
        self.advance();
        Ok(text)
    }

    /// `( item, ... )`, with at least one item.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_token(&Token::LParen)?;
        let mut items = vec![item(self)?];
        while self.accept_token(&Token::Comma) {
            items.push(item(self)?);
        }
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    /// `(key = value, ...)`; each key once.
    pub fn options(&mut self) -> Result<Vec<SqlOption>> {
        let options = self.list(|cursor| {
            let name = cursor.key("an option")?;
            cursor.expect_token(&Token::Eq)?;
            Ok(SqlOption { name, value: cursor.value()? })
        })?;
        match options.iter().enumerate().find(|(n, option)| options[..*n].iter().any(|earlier| earlier.name == option.name)) {
            Some((_, option)) => Err(Error::invalid(format!("option '{}' is given twice", option.name))),
            None => Ok(options),
        }
    }

    /// The name of an option or setting: a string, or words joined by dots and hyphens (`table.exec.mini-batch.size`).
    pub fn key(&mut self, kind: &str) -> Result<String> {
        if let Token::SingleQuotedString(_) = self.peek().token {
            return self.string(kind);
        }
        let mut key = String::new();
        loop {
            let Token::Word(word) = &self.peek().token else { return self.expected(&format!("the name of {kind}")) };
            key.push_str(&fold(word));
            self.advance();
            match self.peek().token {
                Token::Period => key.push('.'),
                Token::Minus => key.push('-'),
                _ => return Ok(key),
            }
            self.advance();
        }
    }

    /// A string, a number or one bare word, as written and without its quotes.
    pub fn value(&mut self) -> Result<String> {
        let sign = if self.accept_token(&Token::Minus) { "-" } else { "" };
        let value = match &self.peek().token {
            Token::Number(number, _) => format!("{sign}{number}"),
            Token::SingleQuotedString(text) if sign.is_empty() => text.clone(),
            Token::Word(word) if sign.is_empty() => word.value.clone(),
            _ => return self.expected("a string, a number or a word"),
        };
        self.advance();
        if let Token::Word(_) = self.peek().token {
            return self.expected(&format!("nothing after {value} (a value of more than one word is quoted)"));
        }
        Ok(value)
    }

    pub fn expr(&mut self) -> Result<ast::Expr> {
        let expr = self.parser.parse_expr()?;
        refuse_dropped(&expr)?;
        Ok(expr)
    }

    /// The index of the next token that is not white space.
    pub fn next_index(&self) -> usize {
        let mut index = self.parser.index();
        while matches!(self.parser.token_at(index).token, Token::Whitespace(_)) {
            index += 1;
        }
        index
    }

    /// Refuses the hints between the last query and the token at an index: they belong to nothing.
    pub fn refuse_hints_before(&mut self, index: usize) -> Result<()> {
        let seen = self.hints_seen;
        self.hints_seen = index;
        hints::refuse((seen..index).map(|index| self.parser.token_at(index)))
    }

    /// Takes the hints from the token at an index to here, for a query, and counts its JOIN keywords.
    pub fn take_hints_from(&mut self, index: usize) -> Result<(Vec<Hint>, usize)> {
        self.hints_seen = self.next_index();
        hints::collect((index..self.hints_seen).map(|index| self.parser.token_at(index)))
    }
}

/// An identifier in the catalog's case.
fn fold(word: &Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_ascii_lowercase() }
}

/// A token for a message: not all of a long literal.
fn describe(token: &Token) -> String {
    const SHOWN: usize = 40;
    match token {
        Token::EOF => "the end of the text".into(),
        token => {
            let text = token.to_string();
            match text.char_indices().nth(SHOWN) {
                Some((cut, _)) => format!("{}...", &text[..cut]),
                None => text,
            }
        }
    }
}

/// Gives an error that knows no place this one.
pub(in crate::sql) fn place(error: Error, location: Location) -> Error {
    match error {
        Error::Syntax { message, line: 0, .. } => Error::Syntax { message, line: location.line, column: location.column },
        other => other,
    }
}

/// `sqlparser` writes the place at the end of its message; here it is data.
impl From<ParserError> for Error {
    fn from(error: ParserError) -> Self {
        let text = match error {
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
            ParserError::RecursionLimitExceeded => format!("nested too deeply (more than {NESTING} levels)"),
        };
        let (message, (line, column)) = split_place(&text).unwrap_or((&text, (0, 0)));
        let message = message.replace(", found: EOF", ", found the end of the text").replace(", found: ", ", found ");
        let expected = message.strip_prefix("Expected: ").or_else(|| message.strip_prefix("Expected "));
        let message = expected.map_or_else(|| message.clone(), |what| format!("expected {what}"));
        Error::Syntax { message, line, column }
    }
}

/// Splits "message at Line: 1, Column: 2".
fn split_place(text: &str) -> Option<(&str, (u64, u64))> {
    let (message, place) = text.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some((message, (line.parse().ok()?, column.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::testing::refusal;

    #[test]
    fn a_parser_error_becomes_a_syntax_error_with_its_place() {
        let error = Error::from(ParserError::ParserError("Expected: ), found: EOF at Line: 3, Column: 14".into()));
        assert_eq!(error, Error::Syntax { message: "expected ), found the end of the text".into(), line: 3, column: 14 });
    }

    #[test]
    fn a_long_literal_is_cut_in_messages() {
        let message = refusal(&format!("SET a = b '{}'", "x".repeat(1000)));
        assert!(message.len() < 200, "{message}");
    }

    #[test]
    fn a_value_of_two_words_is_told_to_be_quoted() {
        for sql in ["SET state_ttl = 1 d", "SET state_ttl = 60S", "CREATE VIEW v WITH (a = b c) AS SELECT 1"] {
            assert!(refusal(sql).contains("quoted"), "{sql}");
        }
    }
}
