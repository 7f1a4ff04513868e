//! Statements about the session and the catalog: SET, RESET, SHOW, DESCRIBE, DROP and ADVANCE.

use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::{Error, Result};
use crate::sql::duration::{parse_duration, parse_timestamp};
use crate::sql::statement::{DropKind, Show, Statement};

impl Cursor {
    /// SET name = value; SET alone shows all settings.
    pub(super) fn set(&mut self) -> Result<Statement> {
        self.expect(&["SET"])?;
        if self.at_statement_end() {
            return Ok(Statement::Show(Show::Settings));
        }
        let name = self.key("a setting")?;
        if !self.accept(&["TO"]) {
            self.expect_token(&Token::Eq)?;
        }
        Ok(Statement::Set { name, value: self.value()? })
    }

    /// RESET name; RESET ALL or RESET alone for all settings.
    pub(super) fn reset(&mut self) -> Result<Statement> {
        self.expect(&["RESET"])?;
        if self.at_statement_end() || self.accept(&["ALL"]) {
            return Ok(Statement::Reset(None));
        }
        Ok(Statement::Reset(Some(self.key("a setting")?)))
    }

    /// SHOW TABLES | VIEWS | JOBS | ALL | CREATE TABLE name | CREATE VIEW name | COLUMNS FROM name | setting.
    pub(super) fn show(&mut self) -> Result<Statement> {
        self.expect(&["SHOW"])?;
        let show = if self.accept(&["TABLES"]) {
            Show::Tables
        } else if self.accept(&["VIEWS"]) || self.accept(&["MATERIALIZED", "VIEWS"]) {
            Show::Views
        } else if self.accept(&["JOBS"]) {
            Show::Jobs
        } else if self.accept(&["ALL"]) {
            Show::Settings
        } else if self.accept(&["CREATE"]) {
            self.accept(&["MATERIALIZED"]);
            if !self.accept(&["TABLE"]) && !self.accept(&["VIEW"]) {
                return self.expected("TABLE or VIEW");
            }
            Show::Create(self.name("a table or view")?)
        } else if self.accept(&["COLUMNS"]) {
            if !self.accept(&["IN"]) {
                self.expect(&["FROM"])?;
            }
            Show::Columns(self.name("a table or view")?)
        } else if self.at_statement_end() {
            return self.expected("TABLES, VIEWS, JOBS, ALL, CREATE TABLE name, CREATE VIEW name, COLUMNS FROM name or a setting");
        } else {
            Show::Setting(self.key("a setting")?)
        };
        Ok(Statement::Show(show))
    }

    /// DESCRIBE name.
    pub(super) fn describe(&mut self) -> Result<Statement> {
        self.advance();
        Ok(Statement::Show(Show::Columns(self.name("a table or view")?)))
    }

    /// DROP TABLE | [MATERIALIZED] VIEW | JOB [IF EXISTS] name.
    pub(super) fn drop(&mut self) -> Result<Statement> {
        self.expect(&["DROP"])?;
        let materialized = self.accept(&["MATERIALIZED"]);
        let temporary = !materialized && self.accept(&["TEMPORARY"]);
        let (kind, named) = if self.accept(&["VIEW"]) {
            (DropKind::View, "a view")
        } else if !materialized && self.accept(&["TABLE"]) {
            (DropKind::Table, "a table")
        } else if !(materialized || temporary) && self.accept(&["JOB"]) {
            (DropKind::Job, "a job's sink")
        } else {
            return match self.keyword() {
                Some(word) => Err(Error::unsupported(format!("DROP {word}: a TABLE, a VIEW or a JOB can be dropped"))),
                None => self.expected("TABLE, VIEW or JOB"),
            };
        };
        let if_exists = self.accept(&["IF", "EXISTS"]);
        let name = self.name(named)?;
        if self.at(&["CASCADE"]) {
            return Err(Error::unsupported(format!("DROP {name} CASCADE: drop what reads it first")));
        }
        // What others read is never dropped: RESTRICT is how DROP works.
        self.accept(&["RESTRICT"]);
        Ok(Statement::Drop { kind, name, if_exists })
    }

    /// CHECKPOINT.
    pub(super) fn checkpoint(&mut self) -> Result<Statement> {
        self.expect(&["CHECKPOINT"])?;
        Ok(Statement::Checkpoint)
    }

    /// ADVANCE TO TIMESTAMP '...' | ADVANCE BY '10 s' | ADVANCE BY INTERVAL '10' SECOND.
    pub(super) fn advance_time(&mut self) -> Result<Statement> {
        self.expect(&["ADVANCE"])?;
        if self.accept(&["TO"]) {
            self.expect(&["TIMESTAMP"])?;
            return Ok(Statement::AdvanceTo(parse_timestamp(&self.string("a timestamp in quotes")?)?));
        }
        if !self.accept(&["BY"]) {
            return self.expected("TO TIMESTAMP '...' or BY '...'");
        }
        let is_interval = self.accept(&["INTERVAL"]);
        let mut text = self.string("a duration in quotes")?;
        if let Some(unit) = self.keyword().filter(|_| is_interval) {
            self.advance();
            text = format!("{text} {unit}");
        }
        match parse_duration(&text)? {
            Some(milliseconds) => Ok(Statement::AdvanceBy(milliseconds)),
            None => Err(Error::invalid(format!("ADVANCE BY '{text}' would not end: write a duration such as '10 s'"))),
        }
    }

    fn at_statement_end(&self) -> bool {
        matches!(self.peek().token, Token::SemiColon | Token::EOF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::testing::{one, refusal};

    #[test]
    fn a_setting_is_a_name_with_dots_or_a_string_and_its_value_is_as_written() {
        let cases = [
            ("SET clock = 'manual'", "clock", "manual"),
            ("SET Clock = Manual", "clock", "Manual"),
            ("SET a.b.C = 10", "a.b.c", "10"),
            ("SET offset.x = -1.5", "offset.x", "-1.5"),
            ("SET 'table.exec.state.ttl' = '1 d'", "table.exec.state.ttl", "1 d"),
            ("SET table.exec.mini-batch.enabled = true", "table.exec.mini-batch.enabled", "true"),
            ("SET tick TO '100 ms'", "tick", "100 ms"),
        ];
        for (sql, expected_name, expected_value) in cases {
            let Statement::Set { name, value } = one(sql) else { panic!("{sql}") };
            assert_eq!((name.as_str(), value.as_str()), (expected_name, expected_value), "{sql}");
        }
        assert!(refusal("SET clock").contains("expected ="));
    }

    #[test]
    fn reset_takes_one_name_or_all() {
        for (sql, expected) in [("RESET", None), ("RESET ALL", None), ("RESET Clock", Some("clock")), ("RESET 'a.B'", Some("a.B"))] {
            let Statement::Reset(name) = one(sql) else { panic!("{sql}") };
            assert_eq!(name.as_deref(), expected, "{sql}");
        }
    }

    #[test]
    fn show_knows_what_it_shows_from_settings() {
        let cases = [
            ("SHOW TABLES", Show::Tables),
            ("SHOW VIEWS", Show::Views),
            ("SHOW JOBS", Show::Jobs),
            ("SHOW ALL", Show::Settings),
            ("SET", Show::Settings),
            ("SHOW CREATE TABLE T", Show::Create("t".into())),
            ("SHOW CREATE VIEW `V`", Show::Create("V".into())),
            ("SHOW COLUMNS FROM t", Show::Columns("t".into())),
            ("DESCRIBE t", Show::Columns("t".into())),
            ("DESC t", Show::Columns("t".into())),
            ("SHOW state_ttl", Show::Setting("state_ttl".into())),
            ("SHOW table.exec.state.ttl", Show::Setting("table.exec.state.ttl".into())),
        ];
        for (sql, expected) in cases {
            let Statement::Show(show) = one(sql) else { panic!("{sql}") };
            assert_eq!(show, expected, "{sql}");
        }
        assert!(refusal("SHOW").contains("COLUMNS FROM"));
        assert!(refusal("SHOW TABLES LIKE 'x'").contains("found LIKE"));
    }

    #[test]
    fn drop_says_what_kind_and_whether_it_must_be_there() {
        let cases = [
            ("DROP TABLE t", DropKind::Table, "t", false),
            ("DROP TEMPORARY TABLE t", DropKind::Table, "t", false),
            ("DROP VIEW IF EXISTS `V`", DropKind::View, "V", true),
            ("DROP MATERIALIZED VIEW v RESTRICT", DropKind::View, "v", false),
            ("DROP JOB sink", DropKind::Job, "sink", false),
        ];
        for (sql, expected_kind, expected_name, expected_if_exists) in cases {
            let Statement::Drop { kind, name, if_exists } = one(sql) else { panic!("{sql}") };
            assert_eq!((kind, name.as_str(), if_exists), (expected_kind, expected_name, expected_if_exists), "{sql}");
        }
        assert!(refusal("DROP VIEW v CASCADE").contains("CASCADE"));
        assert!(refusal("DROP FUNCTION f").contains("DROP FUNCTION"));
    }

    #[test]
    fn advance_goes_to_an_instant_or_by_a_duration() {
        assert!(matches!(one("ADVANCE TO TIMESTAMP '1970-01-01 00:00:20'"), Statement::AdvanceTo(20_000)));
        assert!(matches!(one("ADVANCE BY '9999 ms'"), Statement::AdvanceBy(9_999)));
        assert!(matches!(one("ADVANCE BY INTERVAL '10' SECOND"), Statement::AdvanceBy(10_000)));
        assert!(matches!(one("ADVANCE BY INTERVAL '2 days'"), Statement::AdvanceBy(172_800_000)));
        assert!(refusal("ADVANCE BY 'never'").contains("would not end"));
        assert!(refusal("ADVANCE BY '0 s'").contains("zero"));
        assert!(refusal("ADVANCE BY 10").contains("a duration in quotes"));
        assert!(refusal("ADVANCE TO '1970-01-01'").contains("expected TIMESTAMP"));
        assert!(refusal("ADVANCE").contains("TO TIMESTAMP"));
    }
}
