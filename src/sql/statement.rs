//! What a script says, one statement at a time, before any name in it has been looked up.
//!
//! Queries stay `sqlparser` trees, for DataFusion's planner; what Weir adds to SQL around and inside them (options,
//! hints, watermarks, time travel by ADVANCE) has been taken out of the text and stands here.

use sqlparser::ast;

/// A statement with its own text (no trailing `;`) and the line in the script on which it begins, from 1.
#[derive(Debug, Clone)]
pub struct Parsed {
    pub statement: Statement,
    pub text: String,
    pub line: u64,
}

#[derive(Debug, Clone)]
pub enum Statement {
    CreateTable(CreateTable),
    CreateView(CreateView),
    /// INSERT: rows into a table in memory, or a continuous job into a sink; which one is the catalog's to say.
    Insert(Insert),
    /// EXECUTE STATEMENT SET BEGIN ... END (or BEGIN STATEMENT SET; ... END).
    StatementSet(Vec<Insert>),
    Update(Update),
    Delete(Delete),
    Begin,
    Commit,
    Rollback,
    Query(Query),
    /// EXPLAIN [(STATE)] of a query, an INSERT, or a view by its name (EXPLAIN VIEW v).
    Explain {
        state: bool,
        what: ExplainTarget,
    },
    Show(Show),
    /// SET name = value; the value as written, unquoted.
    Set {
        name: String,
        value: String,
    },
    /// RESET name, or RESET ALL.
    Reset(Option<String>),
    Drop {
        kind: DropKind,
        name: String,
        if_exists: bool,
    },
    /// ALTER VIEW name SET (options).
    AlterView {
        name: String,
        options: Vec<SqlOption>,
    },
    /// ADVANCE TO TIMESTAMP '...': milliseconds since the epoch.
    AdvanceTo(i64),
    /// ADVANCE BY '...': milliseconds.
    AdvanceBy(i64),
    /// `SUBSCRIBE [TO] view`, or SUBSCRIBE (query).
    Subscribe(Query),
    Checkpoint,
}

impl Statement {
    /// Whether nothing that is to outlast the engine comes of it.
    pub fn only_reads(&self) -> bool {
        use Statement::{Checkpoint, Explain, Query, Show, Subscribe};
        matches!(self, Query(_) | Explain { .. } | Show(_) | Subscribe(_) | Checkpoint)
    }
}

#[derive(Debug, Clone)]
pub struct CreateTable {
    pub name: String,
    pub if_not_exists: bool,
    pub temporary: bool,
    pub columns: Vec<ColumnDef>,
    /// Column names of PRIMARY KEY (...) NOT ENFORCED; empty without one.
    pub primary_key: Vec<String>,
    /// WATERMARK FOR column AS expr.
    pub watermark: Option<Watermark>,
    pub options: Vec<SqlOption>,
}

#[derive(Debug, Clone)]
pub struct ColumnDef {
    pub name: String,
    pub kind: ColumnKind,
    pub not_null: bool,
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a script has some tens of columns")]
pub enum ColumnKind {
    /// A column with a declared type.
    Physical(ast::DataType),
    /// `name AS expr`. `PROCTIME()` is the expression of a processing-time column.
    Computed(ast::Expr),
}

#[derive(Debug, Clone)]
pub struct Watermark {
    pub column: String,
    pub expr: ast::Expr,
}

/// `key = value` of WITH (...) or SET (...): keys keep their dots (`state_ttl.o`), values are unquoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOption {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone)]
pub struct CreateView {
    pub name: String,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub materialized: bool,
    pub temporary: bool,
    /// Column names given after the view's name; empty where none are.
    pub columns: Vec<String>,
    pub options: Vec<SqlOption>,
    pub query: Query,
}

/// A query with what Weir took out of its text.
#[derive(Debug, Clone)]
pub struct Query {
    pub ast: Box<ast::Query>,
    pub hints: Vec<Hint>,
    /// EMIT ON WINDOW CLOSE stood at its end.
    pub emit_on_window_close: bool,
}

/// A hint of a query, wherever it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// `/*+ STATE_TTL('o' = '3d', ...) */` after SELECT.
    StateTtl(Vec<SqlOption>),
    /// `/*+ OPTIONS('state.ttl.left' = ..., 'state.ttl.right' = ...) */` after JOIN; `join` numbers the query's joins
    /// in the order of their JOIN keywords in the text, from 0.
    JoinOptions { join: usize, options: Vec<SqlOption> },
    /// Anything else, by name, to be refused.
    Other(String),
}

#[derive(Debug, Clone)]
pub struct Insert {
    pub table: String,
    /// Column names given after the table; empty where none are.
    pub columns: Vec<String>,
    pub query: Query,
}

#[derive(Debug, Clone)]
pub struct Update {
    pub table: String,
    pub assignments: Vec<(String, ast::Expr)>,
    pub predicate: Option<ast::Expr>,
}

#[derive(Debug, Clone)]
pub struct Delete {
    pub table: String,
    pub predicate: Option<ast::Expr>,
}

#[derive(Debug, Clone)]
pub enum ExplainTarget {
    Query(Query),
    Insert(Insert),
    View(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    Tables,
    Views,
    Jobs,
    /// SHOW CREATE TABLE name, SHOW CREATE VIEW name.
    Create(String),
    /// SHOW ALL: every setting.
    Settings,
    /// SHOW name: one setting.
    Setting(String),
    /// SHOW COLUMNS FROM name, DESCRIBE name.
    Columns(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropKind {
    Table,
    View,
    /// DROP JOB sink: ends the continuous job that writes to it.
    Job,
}
