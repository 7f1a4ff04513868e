//! Statements that change rows: INSERT, statement sets, UPDATE, DELETE and transactions.

use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::{Error, Result};
use crate::sql::statement::{Delete, Insert, Statement, Update};

impl Cursor {
    /// INSERT INTO [TABLE] name [(columns)] query.
    pub(super) fn insert(&mut self) -> Result<Insert> {
        self.expect(&["INSERT"])?;
        if self.at(&["OVERWRITE"]) {
            return Err(Error::unsupported("INSERT OVERWRITE: DELETE FROM the table, then INSERT INTO it"));
        }
        self.expect(&["INTO"])?;
        self.accept(&["TABLE"]);
        let table = self.name("a table")?;
        if self.at(&["PARTITION"]) {
            return Err(Error::unsupported(format!("INSERT INTO {table} PARTITION")));
        }
        let columns = if self.at_column_list() { self.list(|cursor| cursor.name("a column"))? } else { Vec::new() };
        let query = self.query()?;
        if self.at(&["ON"]) || self.at(&["RETURNING"]) {
            let clause = if self.at(&["ON"]) { "ON CONFLICT" } else { "RETURNING" };
            return Err(Error::unsupported(format!("{clause} of INSERT INTO {table}")));
        }
        Ok(Insert { table, columns, query })
    }

    /// Whether a parenthesis opens a list of names, and not a query.
    fn at_column_list(&self) -> bool {
        let name = matches!(&self.peek_nth(1).token, Token::Word(_))
            && matches!(self.peek_nth(2).token, Token::Comma | Token::RParen | Token::Period);
        self.peek().token == Token::LParen && name
    }

    /// EXECUTE STATEMENT SET BEGIN insert; ... END.
    pub(super) fn execute(&mut self) -> Result<Statement> {
        self.expect(&["EXECUTE"])?;
        if self.at(&["INSERT"]) {
            return self.insert().map(Statement::Insert);
        }
        self.expect(&["STATEMENT", "SET", "BEGIN"])?;
        self.statement_set()
    }

    /// The inserts of a statement set, each ended by `;`, and END.
    fn statement_set(&mut self) -> Result<Statement> {
        let mut inserts = Vec::new();
        while !self.accept(&["END"]) {
            if !self.at(&["INSERT"]) {
                return self.expected("INSERT or END of the statement set");
            }
            inserts.push(self.insert()?);
            self.expect_token(&Token::SemiColon)?;
        }
        if inserts.is_empty() {
            return Err(Error::invalid("a statement set holds at least one INSERT"));
        }
        Ok(Statement::StatementSet(inserts))
    }

    /// UPDATE name SET column = expr, ... [WHERE predicate].
    pub(super) fn update(&mut self) -> Result<Update> {
        self.expect(&["UPDATE"])?;
        let table = self.name("a table")?;
        self.expect(&["SET"])?;
        let mut assignments: Vec<(String, _)> = Vec::new();
        loop {
            let column = self.name("a column")?;
            if assignments.iter().any(|(earlier, _)| *earlier == column) {
                return Err(Error::invalid(format!("UPDATE {table} sets column '{column}' twice")));
            }
            self.expect_token(&Token::Eq)?;
            assignments.push((column, self.expr()?));
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        if self.at(&["FROM"]) {
            return Err(Error::unsupported(format!("FROM in UPDATE {table}: write a subquery")));
        }
        Ok(Update { table, assignments, predicate: self.predicate()? })
    }

    /// DELETE FROM name [WHERE predicate].
    pub(super) fn delete(&mut self) -> Result<Delete> {
        self.expect(&["DELETE", "FROM"])?;
        let table = self.name("a table")?;
        if self.at(&["USING"]) {
            return Err(Error::unsupported(format!("USING in DELETE FROM {table}: write a subquery")));
        }
        Ok(Delete { table, predicate: self.predicate()? })
    }

    fn predicate(&mut self) -> Result<Option<sqlparser::ast::Expr>> {
        if self.accept(&["WHERE"]) { self.expr().map(Some) } else { Ok(None) }
    }

    /// BEGIN, START TRANSACTION, COMMIT, ROLLBACK; and BEGIN STATEMENT SET.
    pub(super) fn transaction(&mut self) -> Result<Statement> {
        if self.accept(&["START"]) {
            self.expect(&["TRANSACTION"])?;
            return Ok(Statement::Begin);
        }
        if self.accept(&["BEGIN", "STATEMENT", "SET"]) {
            self.expect_token(&Token::SemiColon)?;
            return self.statement_set();
        }
        let statement = if self.accept(&["BEGIN"]) {
            Statement::Begin
        } else if self.accept(&["COMMIT"]) {
            Statement::Commit
        } else {
            self.expect(&["ROLLBACK"])?;
            Statement::Rollback
        };
        let _optional = self.accept(&["TRANSACTION"]) || self.accept(&["WORK"]);
        Ok(statement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::testing::{one, refusal};
    use crate::sql::statement::Hint;

    fn insert(sql: &str) -> Insert {
        match one(sql) {
            Statement::Insert(insert) => insert,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn an_insert_tells_columns_from_a_query_in_parentheses() {
        let columns = |sql: &str| insert(sql).columns;
        assert_eq!(columns("INSERT INTO t VALUES (1, 'a'), (2, NULL)"), Vec::<String>::new());
        assert_eq!(columns("INSERT INTO t (A, `B`) VALUES (1, 2)"), ["a", "B"]);
        assert_eq!(columns("INSERT INTO t (a) SELECT 1"), ["a"]);
        assert_eq!(columns("INSERT INTO t (SELECT 1)"), Vec::<String>::new());
        assert_eq!(columns("INSERT INTO t ((SELECT 1) UNION ALL (SELECT 2))"), Vec::<String>::new());
        assert_eq!(columns("INSERT INTO t (a) (TABLE s)"), ["a"]);
        assert_eq!(columns("INSERT INTO TABLE t WITH x AS (SELECT 1) SELECT * FROM x"), Vec::<String>::new());
        assert_eq!(insert("INSERT INTO `T` TABLE s").table, "T");
    }

    #[test]
    fn hints_and_emit_of_an_insert_are_its_querys() {
        let insert = insert("INSERT INTO s SELECT /*+ X */ a FROM t EMIT ON WINDOW CLOSE");
        assert_eq!(insert.query.hints, [Hint::Other("X".into())]);
        assert!(insert.query.emit_on_window_close);
        assert!(refusal("INSERT INTO s /*+ OPTIONS('a' = 'b') */ SELECT a FROM t").contains("OPTIONS"));
    }

    #[test]
    fn both_spellings_of_a_statement_set_hold_the_same_inserts() {
        let inserts = "INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t EMIT ON WINDOW CLOSE; INSERT INTO b (k) VALUES (1);";
        for sql in [format!("EXECUTE STATEMENT SET BEGIN {inserts} END"), format!("BEGIN STATEMENT SET; {inserts} END;")] {
            let Statement::StatementSet(set) = one(&sql) else { panic!("{sql}") };
            assert_eq!(set.iter().map(|insert| insert.table.as_str()).collect::<Vec<_>>(), ["a", "b"]);
            assert!(set[0].query.emit_on_window_close && !set[1].query.emit_on_window_close);
        }
        assert!(refusal("EXECUTE STATEMENT SET BEGIN SELECT 1; END").contains("INSERT or END"));
        assert!(refusal("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; ").contains("found the end"));
        assert!(refusal("EXECUTE STATEMENT SET BEGIN END").contains("at least one INSERT"));
    }

    #[test]
    fn an_update_has_assignments_and_maybe_a_predicate() {
        let Statement::Update(update) = one("UPDATE T SET a = a + 1, `B` = 'x' WHERE id IN (SELECT 1)") else { panic!("not UPDATE") };
        assert_eq!(update.table, "t");
        let assignments: Vec<_> = update.assignments.iter().map(|(column, expr)| (column.as_str(), expr.to_string())).collect();
        assert_eq!(assignments, [("a", "a + 1".to_owned()), ("B", "'x'".to_owned())]);
        assert!(update.predicate.is_some());
        assert!(matches!(one("UPDATE t SET a = 1"), Statement::Update(Update { predicate: None, .. })));
        assert!(refusal("UPDATE t SET a = 1, A = 2").contains("'a' twice"));
        assert!(refusal("UPDATE t SET a = 1 FROM u").contains("FROM in UPDATE t"));
        assert!(refusal("UPDATE t SET a = (SELECT /*+ X */ 1)").contains("hint X"));
    }

    #[test]
    fn a_delete_has_maybe_a_predicate() {
        assert!(matches!(one("DELETE FROM t"), Statement::Delete(Delete { predicate: None, .. })));
        let Statement::Delete(delete) = one("DELETE FROM `T` WHERE a = 'x'") else { panic!("not DELETE") };
        assert_eq!((delete.table.as_str(), delete.predicate.map(|predicate| predicate.to_string())), ("T", Some("a = 'x'".into())));
        assert!(refusal("DELETE FROM t USING u").contains("USING in DELETE FROM t"));
    }

    #[test]
    fn a_transaction_begins_and_ends_in_each_of_its_spellings() {
        for sql in ["BEGIN", "begin transaction", "BEGIN WORK", "START TRANSACTION"] {
            assert!(matches!(one(sql), Statement::Begin), "{sql}");
        }
        for sql in ["COMMIT", "COMMIT WORK", "COMMIT TRANSACTION"] {
            assert!(matches!(one(sql), Statement::Commit), "{sql}");
        }
        assert!(matches!(one("ROLLBACK"), Statement::Rollback));
        assert!(refusal("ROLLBACK TO SAVEPOINT s").contains("found TO"));
    }

    #[test]
    fn what_an_insert_cannot_do_is_refused_by_name() {
        let cases = [
            ("INSERT OVERWRITE t SELECT 1", "INSERT OVERWRITE"),
            ("INSERT INTO t PARTITION (d = 1) SELECT 1", "PARTITION"),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
            ("INSERT INTO t VALUES (1) RETURNING a", "RETURNING"),
            ("INSERT INTO a.b VALUES (1)", "a.b"),
        ];
        for (sql, name) in cases {
            let message = refusal(sql);
            assert!(message.contains("not supported") && message.contains(name), "{sql}: {message}");
        }
    }
}
