//! Flink's spellings, token by token, into those that `sqlparser` reads.
//!
//! | written | read as |
//! |---|---|
//! | `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...))` | `TUMBLE(t, ts, ...)`, a table function; its siblings and named arguments too |
//! | `SESSION(TABLE t PARTITION BY k, ...)` | `SESSION(t, partition_by => k, ...)` |
//! | `TABLE t`, as a query | `SELECT * FROM t` |
//! | `TIMESTAMP_LTZ(3)`, as a type | `TIMESTAMPTZ(3)` |
//! | `TIMESTAMP(3) WITH LOCAL TIME ZONE` | `TIMESTAMP(3) WITH TIME ZONE` |
//! | `ROW<...>`, as a type | `STRUCT<...>` |
//!
//! Each token keeps the place in the text that it came from, and the last of a statement stays the last.

use std::collections::{HashMap, HashSet};

use sqlparser::keywords::RESERVED_FOR_TABLE_ALIAS;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::dialect::is_word;

/// The windowing table functions.
const WINDOW_FUNCTIONS: [&str; 4] = ["TUMBLE", "HOP", "CUMULATE", "SESSION"];

/// Rewrites all tokens of a script.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut edits = Script::new(&tokens).edits();
    if edits.is_empty() {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + 2 * edits.len());
    for (index, token) in tokens.into_iter().enumerate() {
        match edits.remove(&index) {
            None => rewritten.push(token),
            Some(replacements) => rewritten.extend(replacements.into_iter().map(|replacement| TokenWithSpan::new(replacement, token.span))),
        }
    }
    rewritten
}

/// What takes the place of a token, by the token's index in the script.
type Edits = HashMap<usize, Vec<Token>>;

/// The tokens that are not white space. A position counts these.
struct Script<'a> {
    tokens: &'a [TokenWithSpan],
    significant: Vec<usize>,
    /// The position of the parenthesis that closes the one at a position.
    closing: HashMap<usize, usize>,
}

/// What the position that is looked at stands in.
#[derive(Default)]
struct Surroundings {
    /// The parentheses open here, outermost first.
    open: Vec<usize>,
    /// The statement defines a table.
    in_create_table: bool,
    /// TABLE keywords that are a window function's, by position.
    arguments: HashSet<usize>,
}

impl<'a> Script<'a> {
    fn new(tokens: &'a [TokenWithSpan]) -> Self {
        let significant: Vec<usize> = (0..tokens.len()).filter(|index| !matches!(tokens[*index].token, Token::Whitespace(_))).collect();
        let mut closing = HashMap::new();
        let mut open = Vec::new();
        for (position, index) in significant.iter().enumerate() {
            match tokens[*index].token {
                Token::LParen => open.push(position),
                Token::RParen => drop(open.pop().map(|opening| closing.insert(opening, position))),
                Token::SemiColon => open.clear(),
                _ => {}
            }
        }
        Script { tokens, significant, closing }
    }

    fn at(&self, position: usize) -> Option<&Token> {
        self.significant.get(position).map(|index| &self.tokens[*index].token)
    }

    /// The token `back` positions before one.
    fn before(&self, position: usize, back: usize) -> Option<&Token> {
        self.at(position.checked_sub(back)?)
    }

    fn word(&self, position: usize, word: &str) -> bool {
        self.significant.get(position).is_some_and(|index| is_word(&self.tokens[*index], word))
    }

    fn words(&self, position: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(n, word)| self.word(position + n, word))
    }

    fn word_before(&self, position: usize, back: usize, words: &[&str]) -> bool {
        position.checked_sub(back).is_some_and(|position| words.iter().any(|word| self.word(position, word)))
    }

    fn edits(&self) -> Edits {
        let mut edits = Edits::new();
        let mut around = Surroundings::default();
        for position in 0..self.significant.len() {
            match self.at(position) {
                Some(Token::LParen) => around.open.push(position),
                Some(Token::RParen) => drop(around.open.pop()),
                Some(Token::SemiColon) => around = Surroundings::default(),
                Some(Token::Word(_)) => {
                    around.in_create_table |= self.defines_table(position);
                    self.edit_word(position, &mut around, &mut edits);
                }
                _ => {}
            }
        }
        edits
    }

    fn edit_word(&self, position: usize, around: &mut Surroundings, edits: &mut Edits) {
        let mut edit = |position: usize, tokens: Vec<Token>| drop(edits.insert(self.significant[position], tokens));
        if WINDOW_FUNCTIONS.iter().any(|name| self.word(position, name)) {
            self.edit_window_function(position, around, &mut edit);
        } else if self.word(position, "TABLE") && !around.arguments.contains(&position) && self.is_table_query(position) {
            edit(position, vec![word("SELECT"), Token::Mul, word("FROM")]);
        } else if self.words(position, &["WITH", "LOCAL", "TIME", "ZONE"]) {
            edit(position + 1, vec![]);
        } else if self.word(position, "TIMESTAMP_LTZ") && self.is_type(position, around) {
            edit(position, vec![word("TIMESTAMPTZ")]);
        } else if self.word(position, "ROW") && self.at(position + 1) == Some(&Token::Lt) && self.is_type(position, around) {
            edit(position, vec![word("STRUCT")]);
        }
    }

    /// `TUMBLE(TABLE t, DESCRIPTOR(ts), ...)`, inside `TABLE(...)` or not. The function of that name over a
    /// column, which groups, has neither a TABLE nor a DESCRIPTOR in it and stays what it is.
    fn edit_window_function(&self, name: usize, around: &mut Surroundings, edit: &mut impl FnMut(usize, Vec<Token>)) {
        let opening = name + 1;
        let Some(&closing) = self.closing.get(&opening) else { return };
        let arguments: Vec<usize> = self.top_level(opening, closing).collect();
        if !arguments.iter().any(|&position| self.word(position, "TABLE") || self.word(position, "DESCRIPTOR")) {
            return;
        }
        for position in arguments {
            if self.word(position, "TABLE") {
                around.arguments.insert(position);
                edit(position, vec![]);
            } else if self.word(position, "DESCRIPTOR") && self.closing.get(&(position + 1)) == Some(&(position + 3)) {
                // Of several columns it stays a call of DESCRIPTOR.
                [position, position + 1, position + 3].into_iter().for_each(|position| edit(position, vec![]));
            } else if self.words(position, &["PARTITION", "BY"]) {
                edit(position, vec![Token::Comma, word("partition_by")]);
                edit(position + 1, vec![Token::RArrow]);
            }
        }
        let wrapped = self.word_before(name, 2, &["TABLE"]) && self.closing.get(&(name - 1)) == Some(&(closing + 1));
        if wrapped {
            // Of the two that close, the outer one stays: it may end the statement.
            [name - 2, name - 1, closing].into_iter().for_each(|position| edit(position, vec![]));
        }
    }

    /// The positions between two parentheses that are in no further ones.
    fn top_level(&self, opening: usize, closing: usize) -> impl Iterator<Item = usize> {
        let mut position = opening;
        std::iter::from_fn(move || {
            position = self.closing.get(&position).filter(|_| position != opening).map_or(position + 1, |inner| inner + 1);
            (position < closing).then_some(position)
        })
    }

    /// Whether TABLE stands where a query may begin, before a name.
    fn is_table_query(&self, position: usize) -> bool {
        let names = matches!(self.at(position + 1), Some(Token::Word(next)) if next.quote_style.is_some() || !RESERVED_FOR_TABLE_ALIAS.contains(&next.keyword));
        const SET_OPERATORS: [&str; 4] = ["UNION", "EXCEPT", "INTERSECT", "MINUS"];
        let begins = match self.before(position, 1) {
            None | Some(Token::SemiColon | Token::LParen | Token::RParen) => true,
            Some(_) => {
                self.word_before(position, 1, &["AS", "EXPLAIN", "FOR"])
                    || self.word_before(position, 1, &SET_OPERATORS)
                    || (self.word_before(position, 1, &["ALL", "DISTINCT"]) && self.word_before(position, 2, &SET_OPERATORS))
                    || (self.word_before(position, 2, &["INTO"]) && matches!(self.before(position, 1), Some(Token::Word(_))))
            }
        };
        names && begins
    }

    /// Whether the words from here begin the definition of a table.
    fn defines_table(&self, position: usize) -> bool {
        self.words(position, &["CREATE", "TABLE"])
            || self.words(position, &["CREATE", "TEMPORARY", "TABLE"])
            || self.words(position, &["CREATE", "TEMP", "TABLE"])
    }

    /// Whether a word stands where a type does: after a column's name in the definition of a table, or in a CAST.
    fn is_type(&self, position: usize, around: &Surroundings) -> bool {
        let casts = around.open.last().is_some_and(|opening| self.word_before(*opening, 1, &["CAST", "TRY_CAST"]));
        let column = around.in_create_table && around.open.len() == 1;
        match self.before(position, 1) {
            Some(Token::Lt) => casts || column,
            Some(Token::Word(_)) => casts || (column && !self.word_before(position, 1, &["AS"])),
            _ => false,
        }
    }
}

fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::dialect::WeirDialect;
    use sqlparser::tokenizer::Tokenizer;

    /// The rewritten tokens, a space between each two.
    fn rewritten(sql: &str) -> String {
        let tokens = Tokenizer::new(&WeirDialect, sql).tokenize_with_location().expect("the test's SQL has good tokens");
        let significant = rewrite(tokens).into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        significant.map(|token| token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_window_over_a_table_becomes_a_table_function() {
        let cases = [
            (
                "FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) AS w",
                "FROM TUMBLE ( Bid , bidtime , INTERVAL '10' MINUTES ) AS w",
            ),
            ("FROM HOP(TABLE a.b, DESCRIPTOR(`t s`), x, y)", "FROM HOP ( a . b , `t s` , x , y )"),
            (
                "FROM table (cumulate (DATA => TABLE t, TIMECOL => descriptor (ts), STEP => f(1, (2))))",
                "FROM cumulate ( DATA => t , TIMECOL => ts , STEP => f ( 1 , ( 2 ) ) )",
            ),
            ("FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), g))", "FROM SESSION ( t , partition_by => k , ts , g )"),
            ("FROM TABLE(TUMBLE((SELECT * FROM t), DESCRIPTOR(ts), g))", "FROM TUMBLE ( ( SELECT * FROM t ) , ts , g )"),
        ];
        for (written, read) in cases {
            assert_eq!(rewritten(written), read);
        }
    }

    #[test]
    fn a_window_function_that_groups_stays_as_it_is() {
        for sql in
            ["GROUP BY TUMBLE ( ts , INTERVAL '5' SECOND )", "FROM TABLE ( f ( TABLE_NAME ) )", "SELECT HOP", "SESSION ( DESCRIPTOR ( t )"]
        {
            assert_eq!(rewritten(sql), sql);
        }
    }

    #[test]
    fn table_before_a_name_is_a_query_only_where_a_query_may_begin() {
        assert_eq!(rewritten("INSERT INTO a TABLE b"), "INSERT INTO a SELECT * FROM b");
        assert_eq!(rewritten("CREATE VIEW v AS TABLE b"), "CREATE VIEW v AS SELECT * FROM b");
        for sql in [
            "CREATE TABLE b",
            "DROP TABLE b",
            "SHOW CREATE TABLE b",
            "INSERT INTO TABLE b",
            "SELECT a AS TABLE FROM b",
            "FROM TABLE ( f ( x ) )",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }

    #[test]
    fn types_are_respelt_where_a_type_stands_and_nowhere_else() {
        assert_eq!(
            rewritten("CREATE TABLE t (a TIMESTAMP_LTZ(3), b ARRAY<ROW<x TIMESTAMP_LTZ>>)"),
            "CREATE TABLE t ( a TIMESTAMPTZ ( 3 ) , b ARRAY < STRUCT < x TIMESTAMPTZ >> )"
        );
        assert_eq!(rewritten("SELECT CAST(a AS timestamp_ltz)"), "SELECT CAST ( a AS TIMESTAMPTZ )");
        assert_eq!(rewritten("a TIMESTAMP(3) WITH LOCAL TIME ZONE"), "a TIMESTAMP ( 3 ) WITH TIME ZONE");
        for sql in
            ["SELECT timestamp_ltz AS timestamp_ltz", "SELECT a WHERE row < 3", "CREATE TABLE t ( timestamp_ltz INT , b AS timestamp_ltz )"]
        {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
