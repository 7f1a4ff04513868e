//! CREATE TABLE.

use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::{Error, Result};
use crate::sql::dialect::is_word;
use crate::sql::statement::{ColumnDef, ColumnKind, CreateTable, Watermark};

/// Clauses of a column that Weir does not have.
const COLUMN_CLAUSES: [&str; 9] =
    ["CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "GENERATED", "METADATA", "REFERENCES", "UNIQUE", "AUTO_INCREMENT"];

/// Clauses after a table's columns that Weir does not have.
const TABLE_CLAUSES: [&str; 6] = ["PARTITIONED", "PARTITION", "DISTRIBUTED", "CLUSTERED", "LIKE", "AS"];

impl Cursor {
    /// What stands after CREATE [TEMPORARY] TABLE.
    pub(super) fn create_table(&mut self, temporary: bool) -> Result<CreateTable> {
        let if_not_exists = self.accept(&["IF", "NOT", "EXISTS"]);
        let name = self.name("a table")?;
        let mut table = CreateTable {
            name,
            if_not_exists,
            temporary,
            columns: Vec::new(),
            primary_key: Vec::new(),
            watermark: None,
            options: Vec::new(),
        };
        if self.peek().token != Token::LParen {
            self.refuse_table_clause(&table.name)?;
        }
        self.list(|cursor| cursor.table_element(&mut table))?;
        self.accept_comment()?;
        self.refuse_table_clause(&table.name)?;
        if self.accept(&["WITH"]) {
            table.options = self.options()?;
        }
        self.refuse_table_clause(&table.name)?;
        check(&table)?;
        Ok(table)
    }

    /// A column, the primary key, or the watermark.
    fn table_element(&mut self, table: &mut CreateTable) -> Result<()> {
        let names_constraint = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|word| is_word(self.peek_nth(2), word));
        if self.at(&["CONSTRAINT"]) && names_constraint {
            self.advance();
            self.name("a constraint")?;
            if !self.at(&["PRIMARY", "KEY"]) {
                return Err(Error::unsupported(format!(
                    "constraint {} of table {}: a table has a PRIMARY KEY and no other",
                    self.peek(),
                    table.name
                )));
            }
        }
        let next_is_list = self.peek_nth(1).token == Token::LParen;
        if self.accept(&["PRIMARY", "KEY"]) {
            let key = self.list(|cursor| cursor.name("a column"))?;
            self.primary_key(key, table)
        } else if self.at(&["WATERMARK", "FOR"]) {
            self.watermark(table)
        } else if (next_is_list && (self.at(&["UNIQUE"]) || self.at(&["CHECK"]))) || self.at(&["FOREIGN", "KEY"]) {
            Err(Error::unsupported(format!("{} in table {}: a table has a PRIMARY KEY and no other constraint", self.peek(), table.name)))
        } else {
            self.column(table)
        }
    }

    /// What stands after PRIMARY KEY and its columns.
    fn primary_key(&mut self, columns: Vec<String>, table: &mut CreateTable) -> Result<()> {
        self.accept(&["NOT", "ENFORCED"]);
        if self.at(&["ENFORCED"]) {
            return Err(Error::unsupported(format!(
                "PRIMARY KEY ENFORCED in table {}: an insert of a key that is there replaces its row (NOT ENFORCED)",
                table.name
            )));
        }
        if !table.primary_key.is_empty() {
            return Err(Error::invalid(format!(
                "table '{}' has two primary keys: write PRIMARY KEY (a, b) for one of several columns",
                table.name
            )));
        }
        table.primary_key = columns;
        Ok(())
    }

    fn watermark(&mut self, table: &mut CreateTable) -> Result<()> {
        self.expect(&["WATERMARK", "FOR"])?;
        let column = self.name("a column")?;
        self.expect(&["AS"])?;
        let watermark = Watermark { column, expr: self.expr()? };
        match table.watermark.replace(watermark) {
            Some(_) => Err(Error::invalid(format!("table '{}' has two watermarks: it can have one", table.name))),
            None => Ok(()),
        }
    }

    fn column(&mut self, table: &mut CreateTable) -> Result<()> {
        let name = self.name("a column")?;
        let kind = if self.accept(&["AS"]) {
            ColumnKind::Computed(self.expr()?)
        } else if self.at(&["METADATA"]) || matches!(self.peek().token, Token::Comma | Token::RParen) {
            self.refuse_column_clause(&name, table)?;
            return self.expected(&format!("a type for column {name}"));
        } else {
            ColumnKind::Physical(self.parser.parse_data_type()?)
        };
        let mut not_null = false;
        while !matches!(self.peek().token, Token::Comma | Token::RParen) {
            if self.accept(&["NOT", "NULL"]) {
                not_null = true;
            } else if self.accept(&["PRIMARY", "KEY"]) {
                self.primary_key(vec![name.clone()], table)?;
            } else if !self.accept(&["NULL"]) && !self.accept_comment()? {
                self.refuse_column_clause(&name, table)?;
                return self.expected("NOT NULL, PRIMARY KEY, COMMENT, a comma or )");
            }
        }
        table.columns.push(ColumnDef { name, kind, not_null });
        Ok(())
    }

    /// `COMMENT 'text'`, which is for readers of the script.
    pub(super) fn accept_comment(&mut self) -> Result<bool> {
        let found = self.accept(&["COMMENT"]);
        if found {
            self.string("a comment in quotes")?;
        }
        Ok(found)
    }

    fn refuse_column_clause(&self, column: &str, table: &CreateTable) -> Result<()> {
        match self.keyword().filter(|word| COLUMN_CLAUSES.contains(&word.as_str())) {
            Some(word) => Err(Error::unsupported(format!("{word} of column {column} in table {}", table.name))),
            None => Ok(()),
        }
    }

    fn refuse_table_clause(&self, table: &str) -> Result<()> {
        match self.keyword().filter(|word| TABLE_CLAUSES.contains(&word.as_str())) {
            Some(word) if word == "AS" => {
                Err(Error::unsupported(format!("CREATE TABLE {table} AS query: CREATE VIEW keeps a query's rows, INSERT copies them")))
            }
            Some(word) if word.starts_with("PARTITION") => Err(Error::unsupported(format!("PARTITIONED BY of table {table}"))),
            Some(word) => Err(Error::unsupported(format!("{word} of table {table}"))),
            None => Ok(()),
        }
    }
}

/// What a definition must have in itself: each column once, and the columns of its key and its watermark.
fn check(table: &CreateTable) -> Result<()> {
    let columns = || table.columns.iter().map(|column| column.name.as_str());
    if let Some((_, twice)) = columns().enumerate().find(|(n, name)| columns().take(*n).any(|earlier| earlier == *name)) {
        return Err(Error::invalid(format!("column '{twice}' of table '{}' is defined twice", table.name)));
    }
    let named = table.primary_key.iter().chain(table.watermark.iter().map(|watermark| &watermark.column));
    for name in named {
        if !columns().any(|column| column == name) {
            return Err(Error::unknown("column", name, columns()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::testing::{one, refusal};
    use crate::sql::statement::{SqlOption, Statement};
    use sqlparser::ast::{DataType, TimezoneInfo};

    fn table(sql: &str) -> CreateTable {
        match one(sql) {
            Statement::CreateTable(table) => table,
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// The one column of a table, its type as SQL.
    fn type_of(sql: &str) -> String {
        match &table(&format!("CREATE TABLE t (c {sql})")).columns[0].kind {
            ColumnKind::Physical(data_type) => data_type.to_string(),
            computed => panic!("{sql}: {computed:?}"),
        }
    }

    #[test]
    fn a_definition_keeps_every_part_in_the_catalogs_case() {
        let table = table(
            "CREATE TEMPORARY TABLE IF NOT EXISTS `Orders` (
                 ID INT NOT NULL COMMENT 'a number', `User` STRING, price DECIMAL(10, 2) NULL, ts TIMESTAMP(3),
                 total AS price * 2 COMMENT 'twice', pt AS PROCTIME(),
                 WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
                 PRIMARY KEY (id, `User`) NOT ENFORCED
             ) COMMENT 'orders' WITH ('connector' = 'file', path = '/a;b', rows = 10, on_error = skip)",
        );
        assert_eq!((table.name.as_str(), table.temporary, table.if_not_exists), ("Orders", true, true));
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["id", "User", "price", "ts", "total", "pt"]);
        assert_eq!(table.columns.iter().map(|column| column.not_null).collect::<Vec<_>>(), [true, false, false, false, false, false]);
        assert!(matches!(&table.columns[4].kind, ColumnKind::Computed(expr) if expr.to_string() == "price * 2"));
        assert!(matches!(&table.columns[5].kind, ColumnKind::Computed(expr) if expr.to_string() == "PROCTIME()"));
        assert_eq!(table.primary_key, ["id", "User"]);
        let watermark = table.watermark.expect("the definition has a watermark");
        assert_eq!((watermark.column.as_str(), watermark.expr.to_string().as_str()), ("ts", "ts - INTERVAL '5' SECOND"));
        let options = [("connector", "file"), ("path", "/a;b"), ("rows", "10"), ("on_error", "skip")];
        assert_eq!(table.options, options.map(|(name, value)| SqlOption { name: name.into(), value: value.into() }));
    }

    #[test]
    fn a_primary_key_may_stand_with_its_column_or_under_a_name() {
        for sql in [
            "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT)",
            "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)",
            "CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))",
            "CREATE TABLE t (id INT, CONSTRAINT pk PRIMARY KEY (ID) NOT ENFORCED, v INT)",
        ] {
            let table = table(sql);
            assert_eq!((table.primary_key, table.columns.len()), (vec!["id".to_owned()], 2), "{sql}");
        }
    }

    #[test]
    fn flinks_types_parse() {
        for name in [
            "STRING",
            "BYTES",
            "INT",
            "BIGINT",
            "DOUBLE",
            "BOOLEAN",
            "DATE",
            "VARCHAR(20)",
            "DECIMAL(38,18)",
            "TIMESTAMP(3)",
            "TIME",
            "ARRAY<INT>",
        ] {
            assert_eq!(type_of(name), name);
        }
        assert_eq!(type_of("ROW<a INT, b ARRAY<ROW<c STRING>>>"), "STRUCT<a INT, b ARRAY<STRUCT<c STRING>>>");
        assert_eq!(type_of("MAP<STRING, INT> NOT NULL"), "Map(STRING, INT)");
        for local in ["TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH TIME ZONE"] {
            let table = table(&format!("CREATE TABLE t (c {local})"));
            let ColumnKind::Physical(DataType::Timestamp(precision, zone)) = table.columns[0].kind else { panic!("{local}") };
            assert_eq!((precision, zone == TimezoneInfo::None), (Some(3), false), "{local}");
        }
    }

    #[test]
    fn words_of_the_grammar_may_name_columns() {
        let table = table("CREATE TABLE t (watermark INT, primary INT, comment VARCHAR, constraint INT, check INT, \"at\" INT)");
        assert_eq!(table.columns.len(), 6);
    }

    #[test]
    fn what_a_table_cannot_have_is_refused_by_name() {
        let cases = [
            ("CREATE TABLE t (a INT METADATA FROM 'x' VIRTUAL)", "METADATA of column a in table t"),
            ("CREATE TABLE t (a METADATA)", "METADATA of column a in table t"),
            ("CREATE TABLE t (a INT DEFAULT 1)", "DEFAULT of column a in table t"),
            ("CREATE TABLE t (a INT, UNIQUE (a))", "UNIQUE in table t"),
            ("CREATE TABLE t (a INT, CONSTRAINT c UNIQUE (a))", "UNIQUE of table t"),
            ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES b (c))", "FOREIGN in table t"),
            ("CREATE TABLE t (a INT PRIMARY KEY ENFORCED)", "PRIMARY KEY ENFORCED in table t"),
            ("CREATE TABLE t (a INT) PARTITIONED BY (a) WITH ('x' = 'y')", "PARTITIONED BY of table t"),
            ("CREATE TABLE t (a INT) WITH ('x' = 'y') LIKE o", "LIKE of table t"),
            ("CREATE TABLE t LIKE o", "LIKE of table t"),
            ("CREATE TABLE t AS SELECT 1", "CREATE TABLE t AS query"),
            ("CREATE OR REPLACE TABLE t (a INT)", "CREATE OR REPLACE TABLE"),
            ("CREATE TABLE a.b (a INT)", "a.b"),
            ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION"),
        ];
        for (sql, name) in cases {
            let message = refusal(sql);
            assert!(message.contains("not supported") && message.contains(name), "{sql}: {message}");
        }
    }

    #[test]
    fn a_definition_that_contradicts_itself_is_invalid() {
        let cases = [
            ("CREATE TABLE t (a INT, A INT)", "column 'a' of table 't' is defined twice"),
            ("CREATE TABLE t (aa INT, PRIMARY KEY (ab))", "did you mean 'aa'"),
            ("CREATE TABLE t (a INT, WATERMARK FOR ts AS ts)", "no column 'ts'"),
            ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "two primary keys"),
            ("CREATE TABLE t (a INT, WATERMARK FOR a AS a, WATERMARK FOR a AS a)", "two watermarks"),
            ("CREATE TABLE t (a INT) WITH ('k' = 'v', k = 'w')", "option 'k' is given twice"),
            ("CREATE TABLE t (a)", "a type for column a"),
            ("CREATE TABLE t ()", "the name of a column"),
            ("CREATE TABLE t", "expected (, found the end"),
        ];
        for (sql, what) in cases {
            let message = refusal(sql);
            assert!(message.contains(what), "{sql}: {message}");
        }
    }
}
