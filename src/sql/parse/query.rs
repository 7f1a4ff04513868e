//! Queries, and the statements that are a query and a word about it: EXPLAIN and SUBSCRIBE.

use sqlparser::ast::SetExpr;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Cursor;
use super::dropped::refuse_dropped;
use crate::error::{Error, Result};
use crate::sql::dialect::{WeirDialect, is_word};
use crate::sql::retention::count_joins;
use crate::sql::statement::{ExplainTarget, Hint, Query, Statement};

/// How many set operations may be in one query: they nest, and trees are cloned and dropped by recursion.
const SET_OPERATIONS: usize = 100;

const EMIT: [&str; 4] = ["EMIT", "ON", "WINDOW", "CLOSE"];

impl Cursor {
    /// A query with the hints in it and EMIT ON WINDOW CLOSE after it.
    pub fn query(&mut self) -> Result<Query> {
        if !self.at_query() {
            return self.expected("a query");
        }
        let start = self.parser.index();
        self.refuse_hints_before(start)?;
        self.refuse_many_set_operations(start)?;
        self.refuse_inner_emit(start)?;
        let ast = self.parser.parse_query()?;
        if matches!(*ast.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)) {
            return Err(Error::unsupported("WITH in front of INSERT, UPDATE, DELETE or MERGE: write WITH in the query itself"));
        }
        refuse_dropped(&ast)?;
        let (hints, joins) = self.take_hints_from(start)?;
        // A hint knows its join by the number of its keyword, which a column of that name would put out.
        if hints.iter().any(|hint| matches!(hint, Hint::JoinOptions { .. })) && joins != count_joins(&ast) {
            return Err(Error::unsupported("hint OPTIONS in a query that uses join as a name: quote the name"));
        }
        let emit_on_window_close = self.accept(&["EMIT"]);
        if emit_on_window_close {
            self.expect(&["ON", "WINDOW", "CLOSE"])?;
        }
        Ok(Query { ast, hints, emit_on_window_close })
    }

    /// Counts set operations before they are parsed: once there is a tree, even dropping it takes the stack.
    fn refuse_many_set_operations(&self, start: usize) -> Result<()> {
        let tokens = (start..).map(|index| self.parser.token_at(index));
        let query = tokens.take_while(|token| !matches!(token.token, Token::SemiColon | Token::EOF));
        let operations = query.filter(|token| ["UNION", "EXCEPT", "INTERSECT"].iter().any(|word| is_word(token, word))).count();
        if operations > SET_OPERATIONS {
            return Err(Error::unsupported(format!(
                "more than {SET_OPERATIONS} set operations in one query (this one has {operations}); VALUES lists many rows"
            )));
        }
        Ok(())
    }

    /// EMIT ON WINDOW CLOSE is of a result as a whole: a part of one has no rows that are final by themselves.
    fn refuse_inner_emit(&self, start: usize) -> Result<()> {
        let mut depth = 0;
        let mut words: Vec<&TokenWithSpan> = vec![];
        for token in (start..).map(|index| self.parser.token_at(index)) {
            match token.token {
                Token::LParen => depth += 1,
                // What the query itself stands in ends here, if it stands in parentheses.
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::SemiColon | Token::EOF => break,
                Token::Whitespace(_) => continue,
                _ => {}
            }
            words.push(token);
            let says_emit = |words: &[&TokenWithSpan]| words.iter().zip(EMIT).all(|(token, word)| is_word(token, word));
            if let Some((_, last @ [first, ..])) = words.split_at_checked(words.len().saturating_sub(EMIT.len()))
                && depth > 0
                && last.len() == EMIT.len()
                && says_emit(last)
            {
                let message = "EMIT ON WINDOW CLOSE stands at the end of a whole query, not in a subquery or a common table expression: \
                    make a view of this one, CREATE VIEW v AS ... EMIT ON WINDOW CLOSE, and read that";
                return Err(Error::Syntax { message: message.into(), line: first.span.start.line, column: first.span.start.column });
            }
        }
        Ok(())
    }

    fn at_query(&self) -> bool {
        self.peek().token == Token::LParen || ["SELECT", "WITH", "VALUES"].iter().any(|word| self.at(&[word]))
    }

    /// EXPLAIN [PLAN FOR] [(STATE)] query | INSERT ... | VIEW name.
    pub(super) fn explain(&mut self) -> Result<Statement> {
        self.expect(&["EXPLAIN"])?;
        self.accept(&["PLAN", "FOR"]);
        let state = self.explain_option()?;
        let what = if self.accept(&["VIEW"]) {
            ExplainTarget::View(self.name("a view")?)
        } else if self.at(&["INSERT"]) {
            ExplainTarget::Insert(self.insert()?)
        } else if self.at_query() {
            ExplainTarget::Query(self.query()?)
        } else if self.at(&["ANALYZE"]) || self.at(&["VERBOSE"]) || self.at(&["STATEMENT"]) || self.at(&["EXECUTE"]) {
            return Err(Error::unsupported(format!(
                "EXPLAIN {}: a query, an INSERT or a VIEW can be explained, plainly or as EXPLAIN (STATE)",
                self.peek()
            )));
        } else {
            return self.expected("a query, INSERT or VIEW");
        };
        Ok(Statement::Explain { state, what })
    }

    /// `(STATE)`. A parenthesis with more than a word in it is the query's own.
    fn explain_option(&mut self) -> Result<bool> {
        let is_option = self.peek().token == Token::LParen && matches!(self.peek_nth(1).token, Token::Word(_));
        if !is_option || self.peek_nth(2).token != Token::RParen {
            return Ok(false);
        }
        self.advance();
        if !self.accept(&["STATE"]) {
            return Err(Error::unsupported(format!("EXPLAIN ({}): the option is STATE", self.peek())));
        }
        self.expect_token(&Token::RParen)?;
        Ok(true)
    }

    /// SUBSCRIBE [TO] name | SUBSCRIBE [TO] (query).
    pub(super) fn subscribe(&mut self) -> Result<Statement> {
        self.expect(&["SUBSCRIBE"])?;
        self.accept(&["TO"]);
        if self.accept_token(&Token::LParen) {
            let query = self.query()?;
            self.expect_token(&Token::RParen)?;
            return Ok(Statement::Subscribe(query));
        }
        let quoted = self.name("a view")?.replace('"', "\"\"");
        let ast = Parser::new(&WeirDialect).try_with_sql(&format!("SELECT * FROM \"{quoted}\""))?.parse_query()?;
        Ok(Statement::Subscribe(Query { ast, hints: Vec::new(), emit_on_window_close: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::testing::{one, refusal};
    use crate::sql::statement::SqlOption;

    fn query(sql: &str) -> Query {
        match one(sql) {
            Statement::Query(query) => query,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn the_generic_dialects_queries_parse() {
        let queries = [
            "SELECT COUNT(*) FILTER (WHERE a > 1), SUM(DISTINCT b) FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY a) = 1",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), ())",
            "SELECT a, GROUPING(a) FROM t GROUP BY ROLLUP (a, b)",
            "SELECT a FROM t GROUP BY CUBE (a, b) HAVING COUNT(*) > 1 ORDER BY a DESC NULLS LAST LIMIT 3 OFFSET 1",
            "SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x LIMIT 1) AS l",
            "SELECT SUM(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
            "SELECT SUM(x) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)",
            "SELECT u FROM UNNEST([1, 2, 3]) AS x(u)",
            "SELECT UNNEST(a), ARRAY[1, 2], a[1], {'x': 1} FROM t",
            "SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b",
            "SELECT a IS NOT DISTINCT FROM b, a IS DISTINCT FROM b FROM t",
            "SELECT INTERVAL '5' SECOND, INTERVAL '1 day', TIMESTAMP '2026-01-01 00:00:00', DATE '2026-01-01'",
            "SELECT CAST(a AS TIMESTAMP_LTZ(3)), CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE), TRY_CAST(b AS INT), c::BIGINT FROM t",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
            "SELECT * FROM a LEFT SEMI JOIN b USING (k) LEFT ANTI JOIN c ON a.k = c.k NATURAL JOIN d CROSS JOIN e",
            "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF a.proctime AS r ON a.k = r.k",
            "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k",
            "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x ONE ROW PER MATCH PATTERN (A B+) DEFINE B AS B.x > 1) AS m",
            "SELECT EXTRACT(HOUR FROM ts), `user`, \"User\" FROM `t` WHERE x IN (SELECT y FROM u) AND NOT EXISTS (SELECT 1 FROM v)",
            "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(id, name)",
            "(SELECT 1) UNION ALL (SELECT 2) EXCEPT SELECT 3 INTERSECT ALL SELECT 4",
            "SELECT E'a\\n', U&'\\0041', X'00ff', 1e3, .5, 'it''s'",
            "SELECT * EXCEPT (a), t.* FROM t",
            "VALUES (1, 2), (3, 4)",
        ];
        for sql in queries {
            query(sql);
        }
    }

    #[test]
    fn what_the_planner_would_drop_is_a_syntax_error() {
        for sql in [
            "SELECT a FROM t PREWHERE a > 1",
            "SELECT a FROM t SETTINGS x = 1",
            "SELECT a FROM t LIMIT 1 BY a",
            "FROM t",
            "SELECT a, FROM t",
        ] {
            assert!(refusal(sql).contains("line 1"), "{sql}");
        }
    }

    #[test]
    fn a_join_hint_beside_a_name_that_is_join_is_refused_and_a_quoted_one_is_not() {
        let sql = |name: &str| format!("SELECT {name} FROM a JOIN /*+ OPTIONS('state.ttl.left' = '1 s') */ b ON a.k = b.k");
        assert!(refusal(&sql("join")).contains("quote"));
        for name in ["`join`", "a.join", "k AS join"] {
            query(&sql(name));
        }
        query("SELECT join FROM a");
    }

    #[test]
    fn emit_on_window_close_is_taken_off_the_end_of_a_query_and_never_an_alias() {
        for sql in [
            "SELECT a FROM t",
            "SELECT a",
            "SELECT a FROM t AS x WHERE a = 1",
            "SELECT a FROM t GROUP BY a ORDER BY a",
            "SELECT 1 FROM a JOIN b USING (k)",
        ] {
            let (plain, emitting) = (query(sql), query(&format!("{sql} EMIT on Window CLOSE")));
            assert!(!plain.emit_on_window_close && emitting.emit_on_window_close, "{sql}");
            assert_eq!(plain.ast.to_string(), emitting.ast.to_string());
        }
        assert_eq!(query("SELECT emit.a FROM t emit").ast.to_string(), "SELECT emit.a FROM t emit");
        assert!(refusal("SELECT * FROM (SELECT a FROM t EMIT ON WINDOW CLOSE) AS s").contains("line 1"));
        assert!(refusal("SELECT a FROM t WHERE a = 1 EMIT CHANGES").contains("ON WINDOW CLOSE"));
    }

    #[test]
    fn table_t_is_everything_in_t() {
        assert_eq!(query("TABLE t").ast.to_string(), "SELECT * FROM t");
        assert_eq!(query("TABLE `T` ORDER BY a LIMIT 2").ast.to_string(), "SELECT * FROM `T` ORDER BY a LIMIT 2");
        assert_eq!(query("TABLE a UNION ALL TABLE b").ast.to_string(), "SELECT * FROM a UNION ALL SELECT * FROM b");
        assert_eq!(query("WITH c AS (TABLE a) TABLE c").ast.to_string(), "WITH c AS (SELECT * FROM a) SELECT * FROM c");
    }

    #[test]
    fn hints_are_found_in_subqueries_and_common_table_expressions() {
        let sql = "WITH c AS (SELECT /*+ STATE_TTL('a' = '1d') */ * FROM a JOIN b USING (k))
                   SELECT * FROM c JOIN /*+ OPTIONS('state.ttl.left' = '2 s') */ (SELECT /*+ Strange */ 1) AS s ON true";
        let option = |name: &str, value: &str| vec![SqlOption { name: name.into(), value: value.into() }];
        let expected = [
            Hint::StateTtl(option("a", "1d")),
            Hint::JoinOptions { join: 1, options: option("state.ttl.left", "2 s") },
            Hint::Other("Strange".into()),
        ];
        assert_eq!(query(sql).hints, expected);
    }

    #[test]
    fn explain_takes_a_query_an_insert_or_a_view() {
        let explained = |sql: &str| match one(sql) {
            Statement::Explain { state, what } => (state, what),
            other => panic!("{sql}: {other:?}"),
        };
        assert!(matches!(explained("EXPLAIN SELECT 1"), (false, ExplainTarget::Query(_))));
        assert!(matches!(explained("EXPLAIN (SELECT 1)"), (false, ExplainTarget::Query(_))));
        assert!(matches!(explained("EXPLAIN (STATE) (SELECT 1)"), (true, ExplainTarget::Query(_))));
        assert!(matches!(explained("EXPLAIN PLAN FOR TABLE t"), (false, ExplainTarget::Query(_))));
        assert!(matches!(explained("EXPLAIN (state) INSERT INTO s SELECT 1"), (true, ExplainTarget::Insert(_))));
        assert!(matches!(explained("EXPLAIN (STATE) VIEW V"), (true, ExplainTarget::View(name)) if name == "v"));
        assert!(refusal("EXPLAIN (COST) SELECT 1").contains("COST"));
        assert!(refusal("EXPLAIN ANALYZE SELECT 1").contains("ANALYZE"));
        assert!(refusal("EXPLAIN DROP TABLE t").contains("found DROP"));
    }

    #[test]
    fn subscribe_takes_a_view_or_a_query() {
        let subscribed = |sql: &str| match one(sql) {
            Statement::Subscribe(query) => query.ast.to_string(),
            other => panic!("{sql}: {other:?}"),
        };
        assert_eq!(subscribed("SUBSCRIBE v"), "SELECT * FROM \"v\"");
        assert_eq!(subscribed("SUBSCRIBE TO `My \"view`"), "SELECT * FROM \"My \"\"view\"");
        assert_eq!(subscribed("SUBSCRIBE (SELECT a FROM t EMIT ON WINDOW CLOSE)"), "SELECT a FROM t");
        assert_eq!(subscribed("SUBSCRIBE TO (TABLE t)"), "SELECT * FROM t");
    }

    #[test]
    fn changing_statements_inside_a_query_are_refused() {
        assert!(refusal("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x").contains("WITH in front of INSERT"));
    }
}
