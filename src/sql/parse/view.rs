//! CREATE VIEW and ALTER VIEW.

use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::{Error, Result};
use crate::sql::statement::{CreateView, Statement};

impl Cursor {
    /// What stands after CREATE [OR REPLACE] [TEMPORARY | MATERIALIZED] VIEW.
    pub(super) fn create_view(&mut self, or_replace: bool, temporary: bool, materialized: bool) -> Result<CreateView> {
        let if_not_exists = self.accept(&["IF", "NOT", "EXISTS"]);
        let name = self.name("a view")?;
        if or_replace && if_not_exists {
            return Err(Error::invalid(format!("view '{name}' is both OR REPLACE and IF NOT EXISTS: write one of them")));
        }
        let columns = if self.peek().token == Token::LParen { self.list(Self::view_column)? } else { Vec::new() };
        self.accept_comment()?;
        let options = if self.accept(&["WITH"]) { self.options()? } else { Vec::new() };
        self.expect(&["AS"])?;
        let query = self.query()?;
        Ok(CreateView { name, or_replace, if_not_exists, materialized, temporary, columns, options, query })
    }

    fn view_column(&mut self) -> Result<String> {
        let name = self.name("a column")?;
        self.accept_comment()?;
        Ok(name)
    }

    /// ALTER [MATERIALIZED] VIEW name SET (options).
    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.expect(&["ALTER"])?;
        self.accept(&["MATERIALIZED"]);
        if !self.accept(&["VIEW"]) {
            return match self.keyword() {
                Some(word) => Err(Error::unsupported(format!("ALTER {word}: ALTER VIEW name SET (...) is there"))),
                None => self.expected("VIEW"),
            };
        }
        let name = self.name("a view")?;
        if !self.accept(&["SET"]) {
            return match self.keyword() {
                Some(word) => Err(Error::unsupported(format!("ALTER VIEW {name} {word}: ALTER VIEW {name} SET (...) is there"))),
                None => self.expected("SET"),
            };
        }
        Ok(Statement::AlterView { name, options: self.options()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::testing::{one, refusal};
    use crate::sql::statement::Hint;

    fn view(sql: &str) -> CreateView {
        match one(sql) {
            Statement::CreateView(view) => view,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn options_keep_their_dots_bare_or_quoted() {
        let view = view(
            "CREATE VIEW v WITH (state_ttl = '1 d', STATE_TTL.o = '3 days', 'state_ttl.o+l' = '2 days', on_expiry = 'keep') AS SELECT 1",
        );
        let options: Vec<(&str, &str)> = view.options.iter().map(|option| (option.name.as_str(), option.value.as_str())).collect();
        assert_eq!(options, [("state_ttl", "1 d"), ("state_ttl.o", "3 days"), ("state_ttl.o+l", "2 days"), ("on_expiry", "keep")]);
    }

    #[test]
    fn each_word_before_a_view_says_its_own_thing() {
        let flags = |sql: &str| {
            let view = view(sql);
            (view.or_replace, view.temporary, view.materialized, view.if_not_exists)
        };
        assert_eq!(flags("CREATE VIEW v AS SELECT 1"), (false, false, false, false));
        assert_eq!(flags("CREATE OR REPLACE VIEW v AS SELECT 1"), (true, false, false, false));
        assert_eq!(flags("CREATE TEMPORARY VIEW v AS SELECT 1"), (false, true, false, false));
        assert_eq!(flags("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1"), (false, false, true, true));
        assert!(refusal("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1").contains("OR REPLACE and IF NOT EXISTS"));
        assert!(refusal("CREATE MATERIALIZED TABLE t (a INT)").contains("expected VIEW"));
    }

    #[test]
    fn columns_hints_and_emit_are_the_views() {
        let view = view(
            "CREATE VIEW `V` (A, `B` COMMENT 'b') COMMENT 'c' AS SELECT /*+ STATE_TTL('t' = '1d') */ a, b FROM t EMIT ON WINDOW CLOSE",
        );
        assert_eq!((view.name.as_str(), view.columns), ("V", vec!["a".to_owned(), "B".to_owned()]));
        assert!(matches!(view.query.hints.as_slice(), [Hint::StateTtl(_)]));
        assert!(view.query.emit_on_window_close);
    }

    #[test]
    fn a_hint_outside_the_views_query_is_refused() {
        for sql in [
            "CREATE VIEW /*+ NAMED(x) */ v AS SELECT 1",
            "/*+ NAMED(x) */ CREATE VIEW v AS SELECT 1",
            "CREATE VIEW v /*+ NAMED */ (a) AS SELECT 1",
        ] {
            assert!(refusal(sql).contains("hint NAMED outside a query at line 1"), "{sql}");
        }
    }

    #[test]
    fn alter_view_sets_options_and_nothing_else() {
        let Statement::AlterView { name, options } = one("ALTER VIEW V SET (state_ttl = '7 days', state_ttl.o = 'never')") else {
            panic!("not ALTER VIEW")
        };
        assert_eq!((name.as_str(), options.len(), options[1].name.as_str()), ("v", 2, "state_ttl.o"));
        assert!(refusal("ALTER VIEW v RENAME TO w").contains("ALTER VIEW v RENAME"));
        assert!(refusal("ALTER TABLE t ADD a INT").contains("ALTER TABLE"));
    }
}
