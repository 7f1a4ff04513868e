//! Text to statements.
//!
//! [`statements`] yields each statement before it looks at the next, so a script runs up to its first syntax error; the
//! error names the line and column in the whole text. Unquoted names are folded to lower case, quoted ones (backticks or
//! double quotes) kept. Statements are recursive descent over `sqlparser`'s tokens; queries and expressions inside
//! them are `sqlparser`'s own, after `rewrite` has put Flink's spellings into words that it knows.
//!
//! Nothing is ignored: a clause, an option or a hint that has no place in [`Statement`] is an error that names it.

mod complete;
mod cursor;
mod dml;
mod dropped;
mod query;
mod rewrite;
mod session;
mod table;
mod view;

use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace};

pub use complete::is_complete;
pub(super) use cursor::{Cursor, place};

use super::dialect::WeirDialect;
use super::statement::{Parsed, Statement};
use crate::error::{Error, Result};

/// All statements of a text, or its first error.
pub fn parse(text: &str) -> Result<Vec<Parsed>> {
    statements(text).collect()
}

/// The statements of a text, each parsed when it is asked for. After an error there is nothing more.
pub fn statements(text: &str) -> Statements<'_> {
    Statements::new(text)
}

/// Iterator of [`statements`].
pub struct Statements<'a> {
    cursor: Cursor,
    source: Source<'a>,
    /// Where the statement begins that was parsed last, or could not be.
    begun: Location,
    /// Why the text has no tokens beyond those the cursor has.
    broken: Option<Error>,
    finished: bool,
}

/// Whether two texts say the same: they differ in blanks and comments at most.
pub fn is_same(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        let is_word = |token: &Token| match token {
            // A hint is a comment to the tokenizer.
            Token::Whitespace(Whitespace::MultiLineComment(comment)) => comment.starts_with('+'),
            Token::Whitespace(_) => false,
            _ => true,
        };
        Tokenizer::new(&WeirDialect, text).tokenize().map(|tokens| tokens.into_iter().filter(is_word).collect::<Vec<_>>())
    };
    one == other || matches!((words(one), words(other)), (Ok(one), Ok(other)) if one == other)
}

impl<'a> Statements<'a> {
    fn new(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        // The tokens before a bad one are kept, and with them the statements before it.
        let broken = Tokenizer::new(&WeirDialect, text).tokenize_with_location_into_buf(&mut tokens).err();
        let end = match (&broken, tokens.last()) {
            (Some(error), _) => error.location,
            (None, Some(last)) => last.span.end,
            (None, None) => Location::new(1, 1),
        };
        tokens.push(TokenWithSpan::new(Token::EOF, Span::new(end, end)));
        let parser = Parser::new(&WeirDialect).with_tokens_with_locations(rewrite::rewrite(tokens));
        Statements {
            cursor: Cursor::new(parser),
            source: Source { rest: text, location: Location::new(1, 1) },
            begun: Location::new(1, 1),
            broken: broken.map(|error| Error::Syntax { message: error.message, line: error.location.line, column: error.location.column }),
            finished: false,
        }
    }

    /// The next statement; `None` at the end of the text.
    fn step(&mut self) -> Result<Option<Parsed>> {
        while self.cursor.accept_token(&Token::SemiColon) {}
        self.begun = self.cursor.peek().span.start;
        if self.cursor.at_end() {
            self.cursor.refuse_hints_before(self.cursor.next_index())?;
            return self.broken.take().map_or(Ok(None), Err);
        }
        let statement = match statement(&mut self.cursor) {
            // A statement that stops where the tokens do stops because of what is there.
            Err(error) => return Err(self.broken.take().filter(|_| self.cursor.at_end()).unwrap_or(error)),
            Ok(statement) => statement,
        };
        self.cursor.refuse_hints_before(self.cursor.next_index())?;
        if self.cursor.at_end() {
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
        } else if self.cursor.peek().token != Token::SemiColon {
            return self.cursor.expected("; or the end of the statement");
        }
        let last = last_taken(&self.cursor);
        Ok(Some(Parsed { statement, text: self.source.slice(self.begun, last).to_owned(), line: self.begun.line }))
    }

    /// After an error: the line on which the statement that could not be parsed begins, and its text up to the next `;`.
    pub fn failed(&mut self) -> (u64, &'a str) {
        while !matches!(self.cursor.peek().token, Token::SemiColon | Token::EOF) {
            self.cursor.advance();
        }
        // Where the tokens end there may be more text, which is what could not be parsed.
        let end = if self.cursor.at_end() { Location::new(u64::MAX, 1) } else { self.cursor.peek().span.start };
        (self.begun.line, self.source.slice(self.begun, end).trim_end())
    }
}

impl Iterator for Statements<'_> {
    type Item = Result<Parsed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let step = self.step();
        self.finished = !matches!(step, Ok(Some(_)));
        step.map_err(|error| place(error, self.cursor.peek().span.start)).transpose()
    }
}

/// Where the last token that the cursor has taken ends.
fn last_taken(cursor: &Cursor) -> Location {
    let taken = (0..cursor.parser.index()).rev().map(|index| cursor.parser.token_at(index));
    taken.skip_while(|token| matches!(token.token, Token::Whitespace(_))).map(|token| token.span.end).next().unwrap_or(Location::new(1, 1))
}

/// What is left of a text, cut into statements from front to back.
struct Source<'a> {
    rest: &'a str,
    location: Location,
}

impl<'a> Source<'a> {
    /// The text from one location to another, neither before an earlier call's.
    fn slice(&mut self, start: Location, end: Location) -> &'a str {
        self.take_to(start);
        self.take_to(end)
    }

    fn take_to(&mut self, to: Location) -> &'a str {
        let mut length = 0;
        for c in self.rest.chars() {
            if self.location >= to {
                break;
            }
            length += c.len_utf8();
            // The tokenizer's own way to count.
            self.location = if c == '\n' {
                Location::new(self.location.line + 1, 1)
            } else {
                Location::new(self.location.line, self.location.column + 1)
            };
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}

/// Statements that SQL has and Weir does not, by their first word.
const OTHER_STATEMENTS: [&str; 19] = [
    "ANALYZE",
    "CALL",
    "COPY",
    "DECLARE",
    "DO",
    "GRANT",
    "IMPORT",
    "LOAD",
    "LOCK",
    "MERGE",
    "PREPARE",
    "REFRESH",
    "RELEASE",
    "REVOKE",
    "SAVEPOINT",
    "TRUNCATE",
    "UNLOAD",
    "USE",
    "VACUUM",
];

fn statement(cursor: &mut Cursor) -> Result<Statement> {
    let Some(word) = cursor.keyword() else {
        return if cursor.peek().token == Token::LParen { cursor.query().map(Statement::Query) } else { cursor.expected("a statement") };
    };
    match word.as_str() {
        "SELECT" | "WITH" | "VALUES" => cursor.query().map(Statement::Query),
        "CREATE" => create(cursor),
        "ALTER" => cursor.alter(),
        "DROP" => cursor.drop(),
        "INSERT" => cursor.insert().map(Statement::Insert),
        "UPDATE" => cursor.update().map(Statement::Update),
        "DELETE" => cursor.delete().map(Statement::Delete),
        "EXECUTE" => cursor.execute(),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" => cursor.transaction(),
        "EXPLAIN" => cursor.explain(),
        "SUBSCRIBE" => cursor.subscribe(),
        "SHOW" => cursor.show(),
        "DESCRIBE" | "DESC" => cursor.describe(),
        "SET" => cursor.set(),
        "RESET" => cursor.reset(),
        "ADVANCE" => cursor.advance_time(),
        "CHECKPOINT" => cursor.checkpoint(),
        other if OTHER_STATEMENTS.contains(&other) => Err(Error::unsupported(format!("statement {other}"))),
        _ => cursor.expected("a statement"),
    }
}

/// CREATE, up to what it creates.
fn create(cursor: &mut Cursor) -> Result<Statement> {
    cursor.expect(&["CREATE"])?;
    let or_replace = cursor.accept(&["OR", "REPLACE"]);
    let temporary = cursor.accept(&["TEMPORARY"]) || cursor.accept(&["TEMP"]);
    let materialized = !temporary && cursor.accept(&["MATERIALIZED"]);
    if cursor.accept(&["VIEW"]) {
        return cursor.create_view(or_replace, temporary, materialized).map(Statement::CreateView);
    }
    if cursor.at(&["TABLE"]) && !materialized {
        if or_replace {
            return Err(Error::unsupported("CREATE OR REPLACE TABLE: drop the table, then create it"));
        }
        cursor.advance();
        return cursor.create_table(temporary).map(Statement::CreateTable);
    }
    match cursor.keyword() {
        Some(word) if !(temporary || materialized) => Err(Error::unsupported(format!("CREATE {word}: TABLE and VIEW can be created"))),
        _ => cursor.expected(if materialized { "VIEW" } else { "TABLE or VIEW" }),
    }
}

/// What tests of every subject ask for.
#[cfg(test)]
pub(in crate::sql) mod testing {
    use super::*;

    /// The one statement of a text.
    pub fn one(sql: &str) -> Statement {
        let mut parsed = parse(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(parsed.len(), 1, "{sql}");
        parsed.remove(0).statement
    }

    /// The message with which a text is refused.
    pub fn refusal(sql: &str) -> String {
        match parse(sql) {
            Ok(parsed) => panic!("{sql}\nparses as {parsed:?}"),
            Err(error) => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
